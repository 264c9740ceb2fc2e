"""What goes over the wire between kopf and the API server: are the watches alive, and what did a new listing miss?

kopf tells its handlers neither of bookmarks, the only sign of life of a quiet watch, nor of objects that were deleted
while a watch was broken: after a "410 Gone" it lists again and simply does not mention them. Both are seen here, by a
middleware of the HTTP session that kopf is given.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import aiohttp
from typing_extensions import override
from yarl import URL


class StreamKey(NamedTuple):
    """One watch: a resource in one namespace, or (empty) in all."""

    plural: str
    namespace: str

    @override
    def __str__(self) -> str:
        return f"{self.plural} in {self.namespace or 'all namespaces'}"


class Listing(NamedTuple):
    """What a repeated listing found: everything that is there, by uid."""

    stream: StreamKey
    uids: frozenset[str]
    version: int
    """resourceVersion of the list: objects newer than it may exist without being in it."""


@dataclass(slots=True)
class _Stream:
    started_at: float
    heard_at: float
    """When the API server last said anything: a listing, an accepted watch, an event or a bookmark."""
    listed: bool = False
    uids: set[str] = field(default_factory=set)  # of a repeated listing under way, page by page

    def hear(self, now: float) -> None:
        self.heard_at = now


class Streams:
    """The watches that are expected, and when each was last heard of. Times in seconds of `time`."""

    def __init__(
        self, expected: list[StreamKey], *, time: Callable[[], float], on_relist: Callable[[Listing], None]
    ) -> None:
        now = time()
        self._time = time
        self._on_relist = on_relist
        self._streams = {key: _Stream(started_at=now, heard_at=now) for key in expected}

    def unlisted_for(self) -> dict[StreamKey, float]:
        """Watches whose first listing is not complete, and for how long they have tried."""
        now = self._time()
        return {key: now - stream.started_at for key, stream in self._streams.items() if not stream.listed}

    def silences(self) -> dict[StreamKey, float]:
        """Seconds since the API server last said anything on each watch."""
        now = self._time()
        return {key: now - stream.heard_at for key, stream in self._streams.items()}

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """aiohttp client middleware."""
        key = stream_key(request.url)
        stream = self._streams.get(key)
        response = await handler(request)
        if stream is None or request.method != "GET" or response.status != 200:
            return response
        stream.hear(self._time())
        if request.url.query.get("watch") == "true":
            stream.listed = True  # kopf begins to watch when it has read the whole listing
            tapped = _TappedContent(response.content, lambda: stream.hear(self._time()))
            response.content = cast("aiohttp.StreamReader", tapped)
        elif stream.listed:
            if "continue" not in request.url.query:
                stream.uids.clear()  # an earlier listing may have been broken off between its pages
            self._note_listing(key, stream, await response.read())
        return response

    def _note_listing(self, key: StreamKey, stream: _Stream, data: bytes) -> None:
        """Collect a repeated listing; `read` keeps the data, so that kopf reads it again."""
        listing: dict[str, Any] = json.loads(data)
        stream.uids.update(item["metadata"]["uid"] for item in listing.get("items") or [])
        if not listing["metadata"].get("continue"):
            uids, stream.uids = frozenset(stream.uids), set()
            self._on_relist(Listing(key, uids, int(listing["metadata"]["resourceVersion"])))


def stream_key(url: URL) -> StreamKey:
    """The watch that a URL of a collection belongs to: `/api/v1[/namespaces/NS]/PLURAL`."""
    parts = url.path.strip("/").split("/")
    namespace = parts[-2] if len(parts) > 2 and parts[-3] == "namespaces" else ""
    return StreamKey(parts[-1], namespace)


class _TappedContent:
    """A response's content that says when something arrives. All else is the content's own."""

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content = content
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """As `aiohttp.StreamReader.iter_chunked`: how kopf reads a watch."""
        async for data in self._content.iter_chunked(n):
            self._heard()
            yield data
