"""What comes from the watches goes into the cache, and its job into the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from disttrain.controller import logs
from disttrain.controller.cache import Cache, Entry
from disttrain.controller.keys import RESOURCES, JobKey
from disttrain.controller.streams import Listing

_log = logs.logger("intake")


class Intake:
    """kopf's handlers and the streams speak to this; `enqueue` is the queue's `add`."""

    def __init__(self, cache: Cache, enqueue: Callable[[JobKey], None]) -> None:
        self._cache = cache
        self._enqueue = enqueue

    def attach(self, indexes: Mapping[str, Any]) -> None:
        """kopf's indexes, by kind."""
        self._cache.attach(indexes)

    def index(self, kind: str, body: Mapping[str, Any]) -> dict[JobKey, Entry]:
        """What the kind's index holds of an object. Empty, not None, drops what it held before."""
        entry = self._cache.read(kind, body)
        return {} if entry is None else {entry.key: entry}

    def happened(self, kind: str, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Something happened to an object: look at its job."""
        key = self._cache.key_of(kind, body)
        if key is None:
            return
        if deleted:
            metadata = body["metadata"]
            self._cache.gone(kind, key, metadata["uid"], int(metadata["resourceVersion"]))
        self._enqueue(key)

    def relisted(self, listing: Listing) -> None:
        """A watch was broken for so long that everything was listed again: find out what went away meanwhile."""
        kind = next(kind for kind, resource in RESOURCES.items() if resource.plural == listing.stream.plural)
        concerned = self._cache.relisted(listing, kind)
        _log.info(
            "listed %s again, %d jobs lost objects meanwhile",
            listing.stream,
            len(concerned),
            extra={"resource": listing.stream.plural},
        )
        for key in concerned:
            self._enqueue(key)
