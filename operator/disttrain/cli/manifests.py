"""Reading manifests from files and stdin: every document, and every fault with its place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from disttrain import names
from disttrain.api.errors import InvalidManifest
from disttrain.api.parse import load_documents, parse_job
from disttrain.core.model import Job

STDIN: Final = "-"


@dataclass(frozen=True)
class Document:
    """One DistTrainJob of a file. `place` names it in messages, `origin` is where relative paths in it begin."""

    place: str
    manifest: dict[str, Any]
    job: Job
    origin: Path

    @property
    def faults(self) -> list[str]:
        """One line for each fault; empty for a valid job."""
        return [f"{self.place}: {error}" for error in self.job.errors]


@dataclass
class Manifests:
    """What was read. `faults` are lines for stderr, `skipped` documents of other kinds, which are no fault."""

    documents: list[Document] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def read(sources: Sequence[str]) -> Manifests:
    """Every document of every source, in order; a source that cannot be read is a fault like any other."""
    found = Manifests()
    for source in dict.fromkeys(sources):
        label = "stdin" if source == STDIN else source
        try:
            documents = load_documents(_bytes(source), label)
        except OSError as error:
            found.faults.append(f"{label}: {_trouble(error)}")
        except InvalidManifest as error:
            found.faults += [f"{label}: {fault}" for fault in error.errors]
        else:
            _take(found, label, documents, Path.cwd() if source == STDIN else Path(source).absolute().parent)
    return found


def _take(found: Manifests, label: str, documents: Iterable[dict[str, Any]], origin: Path) -> None:
    jobs = 0
    for number, manifest in enumerate(documents, 1):
        place = f"{label}: document {number}"
        if _is_foreign(manifest):
            found.skipped.append(f"{place}: skipped: a {manifest['kind']} is not a {names.KIND}")
            continue
        jobs += 1
        document = Document(place, manifest, parse_job(manifest), origin)
        found.documents.append(document)
        found.faults += document.faults
    if not jobs:
        found.faults.append(f"{label}: there is no {names.KIND} in it")


def _is_foreign(manifest: Mapping[str, Any]) -> bool:
    """Another kind of another API, such as the claim that a job's file brings along; not a misspelt one of ours."""
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    return (
        isinstance(kind, str)
        and isinstance(version, str)
        and kind.lower() != names.KIND.lower()
        and version.partition("/")[0] != names.GROUP
    )


def _bytes(source: str) -> bytes:
    return sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()


def _trouble(error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return "is a directory; give the file with the manifest"
    return error.strerror or str(error)
