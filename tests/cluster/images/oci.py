"""Images and layers as the image layout of the Open Container Initiative (image-spec 1.1), which containerd imports.

The same files give the same bytes: root owns everything and every file has the same modification time. Python's
compiled files must therefore be of the kind that does not depend on it (`unchecked-hash`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

MTIME = 1_767_225_600  # 2026-01-01: zip files, and so wheels, know no time before 1980
_BUFFER = 1 << 20
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Tree:
    """A directory of this machine whose content appears at `target` in the image; `skip` are names left out."""

    source: Path
    target: str = "/"
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Layer:
    """One layer, an uncompressed tar: `sha256:...` and its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class Settings:
    """How a container of the image runs, if the pod does not say otherwise."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    directory: str = "/"
    environment: Sequence[str] = ("PATH=/usr/local/bin:/usr/bin:/bin",)
    labels: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "User": self.user,
            "WorkingDir": self.directory,
            "Env": list(self.environment),
            "Labels": self.labels,
        }


@dataclass(frozen=True)
class Image:
    """A name, the layers from the bottom up, and the settings."""

    name: str
    layers: tuple[Layer, ...]
    settings: Settings

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)


class BlobStore:
    """A directory of layers, named by their digests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def path(self, layer: Layer) -> Path:
        return self._directory / layer.digest.removeprefix("sha256:")

    def add(self, trees: Sequence[Tree]) -> Layer:
        """Packs the trees into one layer; later ones win where they overlap."""
        partial = self._directory / f".partial-{os.getpid()}"
        with partial.open("wb") as file:
            hashing = _HashingWriter(file)
            with tarfile.open(
                fileobj=cast("IO[bytes]", hashing), mode="w|", format=tarfile.GNU_FORMAT, bufsize=_BUFFER
            ) as tar:
                for target, source in sorted(_files(trees).items()):
                    _add(tar, target, source)
        layer = Layer(f"sha256:{hashing.digest()}", hashing.size)
        partial.rename(self.path(layer))
        return layer


def write_archive(out: IO[bytes], images: Iterable[Image], blobs: BlobStore, without: Iterable[Layer] = ()) -> None:
    """Writes images as one layout in a tar, for `ctr images import`; layers in `without` are there already."""
    known = {layer.digest for layer in without}
    index: list[dict[str, Any]] = []
    with tarfile.open(fileobj=out, mode="w|", bufsize=_BUFFER) as tar:
        _put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for image in images:
            for layer in image.layers:
                if layer.digest not in known:
                    known.add(layer.digest)
                    tar.add(blobs.path(layer), _blob_name(layer.digest), filter=_normal)
            index.append(_put_manifest(tar, image))
        _put(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": index}).encode())


def _put_manifest(tar: tarfile.TarFile, image: Image) -> dict[str, Any]:
    """Adds configuration and manifest; returns the manifest's entry of the index."""
    platform = {"architecture": "amd64", "os": "linux"}
    config = {
        **platform,
        "config": image.settings.to_json(),
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, **_put_json(tar, config)},
        "layers": [{"mediaType": _LAYER, "digest": layer.digest, "size": layer.size} for layer in image.layers],
    }
    annotations = {"io.containerd.image.name": image.name}
    return {"mediaType": _MANIFEST, **_put_json(tar, manifest), "platform": platform, "annotations": annotations}


def _put_json(tar: tarfile.TarFile, value: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(value, sort_keys=True).encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _put(tar, _blob_name(digest), data)
    return {"digest": digest, "size": len(data)}


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(data), MTIME
    tar.addfile(entry, io.BytesIO(data))


def _blob_name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _files(trees: Sequence[Tree]) -> dict[str, Path]:
    """Path in the image (no leading slash) -> path here; with every parent directory of a target."""
    found: dict[str, Path] = {}
    for tree in trees:
        target = PurePosixPath(tree.target.strip("/"))
        for parent in [target, *target.parents]:
            if parent != PurePosixPath("."):
                found.setdefault(str(parent), tree.source)
        for path in _walk(tree.source, tree.skip):
            found[str(target / path.relative_to(tree.source).as_posix())] = path
    return found


def _walk(top: Path, skip: frozenset[str]) -> Iterator[Path]:
    with os.scandir(top) as entries:
        for entry in entries:
            if entry.name in skip:
                continue
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), skip)


def _add(tar: tarfile.TarFile, name: str, source: Path) -> None:
    entry = _normal(tar.gettarinfo(source, name))
    if entry.islnk():  # two names of one file here: each is a file of its own there
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", source.stat().st_size
    if not entry.isreg():
        tar.addfile(entry)
        return
    with source.open("rb") as content:
        tar.addfile(entry, content)


def _normal(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = MTIME
    if entry.isdir():
        entry.mode = 0o1777 if entry.mode & 0o1000 else 0o755
    return entry


class _HashingWriter:
    """A file that knows the digest and size of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def digest(self) -> str:
        return self._hash.hexdigest()
