"""The termination message: how it ended, delivered by Kubernetes itself, without network and credentials.

The kubelet keeps `contract.TERMINATION_LOG_MAX_BYTES` of it and would cut the JSON in its middle, so what does not fit
is left out here, least important first, until valid JSON fits.
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Final, Optional, Sequence

from disttrain_agent import contract
from disttrain_agent.log import log
from disttrain_agent.status import Document

CORE: Final = ("version", "job", "uid", "role", "index", "attempt", "state", "exitCode", "reason", "time")


def encode(document: Document, limit: int = contract.TERMINATION_LOG_MAX_BYTES) -> bytes:
    """UTF-8 JSON of at most `limit` bytes (1024 at least), without the document's empty parts."""
    shrunk = _without_empty(document)
    for shrink in _SHRINKS:
        encoded = _json(shrunk)
        if len(encoded) <= limit:
            return encoded
        shrunk = _without_empty(shrink(shrunk))
    return _json(shrunk)


def write(document: Document, path: str, create: bool) -> None:
    """Write the message to `path`. Without `create` the file must exist: the kubelet makes it, a laptop has none.

    A file that is not there or cannot be written is one log line: how the training ended matters more than the note.
    """
    flags = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o644)
        try:
            os.write(descriptor, encode(document))
        finally:
            os.close(descriptor)
    except OSError as error:
        log(f"no termination message: {path}: {error.strerror}")


def _json(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _is_empty(value: object) -> bool:
    return value is None or value in ({}, [], "")


def _without_empty(value: Document) -> Document:
    kept = {key: _without_empty(item) if isinstance(item, dict) else item for key, item in value.items()}
    return {key: item for key, item in kept.items() if not _is_empty(item)}


def _without(document: Document, section: str, keys: Sequence[str]) -> Document:
    part = document.get(section)
    if not isinstance(part, dict):
        return document
    return {**document, section: {key: value for key, value in part.items() if key not in keys}}


def _shorten(document: Document, size: int) -> Document:
    """The error cut to `size` bytes of JSON, at a character's boundary."""
    error: Optional[str] = document.get("error")
    if error is None or len(_json({"e": error})) <= size:
        return document
    while error and len(_json({"e": error})) > size - 3:  # 3: the ellipsis in UTF-8
        error = error[: len(error) * 9 // 10]
    return {**document, "error": error + "…"}


def _core(document: Document) -> Document:
    kept: Document = {key: value for key, value in document.items() if key in CORE}
    progress: Any = document.get("progress")
    step = progress.get("step") if isinstance(progress, dict) else None
    return {**kept, "progress": {"step": step}, "error": document.get("error")}


_SHRINKS: Final[Sequence[Callable[[Document], Document]]] = (
    lambda document: {**document, "waitingFor": None},
    lambda document: _shorten(document, 1000),
    lambda document: _without(document, "evaluation", ["metrics"]),
    lambda document: _without(document, "model", ["metrics"]),
    lambda document: _shorten(document, 250),
    lambda document: _without(_without(document, "checkpoint", ["location"]), "model", ["location"]),
    _core,
)
