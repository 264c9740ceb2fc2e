"""kopf's part: it lists and watches, keeps the indexes and says which job something happened to. Nothing else.

No create, update or delete handlers, timers or daemons: they would cost finalizers, annotations and further writes,
and kopf does not retry an event handler. What is to be done is done by the work queue (`disttrain.controller`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import kopf
from typing_extensions import override

from disttrain import names

Resources = Mapping[str, tuple[str, str, str]]
"""Group, version and plural of what is watched, by kind; each kind is also the name of its index."""

INACTIVITY_SECONDS: Final = 70.0
"""Without an event or bookmark a watch is connected anew; the API server sends a bookmark about once a minute."""


class Sink(Protocol):
    """Who is told: the operator's cache and queue."""

    def attach(self, indexes: Mapping[str, Any]) -> None:
        """kopf's indexes, by kind."""

    def index(self, kind: str, body: Mapping[str, Any]) -> dict[Any, Any]:
        """What the kind's index holds of an object, by job key; empty if it is nothing of ours."""

    def happened(self, kind: str, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Something happened to an object; the indexes know of it already."""


Login = Callable[[], Awaitable[kopf.AiohttpSession]]


def register(registry: kopf.OperatorRegistry, resources: Resources, sink: Sink, login: Login) -> None:
    """Register all there is: login, start-up, and for each kind an index and an event handler."""

    @kopf.on.login(registry=registry, retries=1)
    async def authenticate(**_: object) -> kopf.AiohttpSession:
        return await login()

    @kopf.on.startup(registry=registry)
    async def start(**kwargs: Any) -> None:
        sink.attach({kind: kwargs[kind] for kind in resources})

    for kind, resource in resources.items():
        kopf.index(*resource, id=kind, registry=registry)(_indexer(kind, sink))
        kopf.on.event(*resource, id=f"{kind}-happened", registry=registry)(_listener(kind, sink))


def _indexer(kind: str, sink: Sink) -> Callable[..., Awaitable[dict[Any, Any]]]:
    async def index(body: kopf.Body, **_: object) -> dict[Any, Any]:
        return sink.index(kind, dict(body))

    return index


def _listener(kind: str, sink: Sink) -> Callable[..., Awaitable[None]]:
    async def listen(event: Mapping[str, Any], **_: object) -> None:
        sink.happened(kind, event["object"], deleted=event["type"] == "DELETED")

    return listen  # gives back nothing: kopf would write what it gives back into the object's status


def configure(settings: kopf.OperatorSettings, resources: Resources) -> None:
    """kopf as a watcher only: it writes nothing, and it never gives up."""
    settings.posting.enabled = False
    settings.scanning.disabled = True  # else it watches CRDs and namespaces, for which we have no permission
    settings.peering.standalone = True
    settings.persistence.finalizer = f"{names.GROUP}/unused"  # kopf removes its default one from objects, whose ever
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.networking.request_timeout = 60.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.inactivity_timeout = INACTIVITY_SECONDS
    settings.watching.chunk_size = 500
    for kind, resource in resources.items():
        if kind != names.KIND:
            settings.watching.label_selectors[resource] = names.LABEL_JOB_NAME


class _Backoffs(Iterable[float]):
    """Seconds between attempts, without an end: an API server that is away must not end the operator."""

    @override
    def __iter__(self) -> Iterator[float]:
        delay = 0.5
        while True:
            yield delay
            delay = min(delay * 2, 8.0)


class _NoDiffBase(kopf.DiffBaseStorage):
    """No last-handled configuration: kopf copies and compares the whole object for it, at every event."""

    @override
    def build(self, **_: Any) -> Any:
        return {}

    @override
    def fetch(self, **_: Any) -> Any:
        return None

    @override
    def store(self, **_: Any) -> None:
        """Keep nothing."""


class _NoProgress(kopf.ProgressStorage):
    """No handler progress in annotations or status."""

    @override
    def fetch(self, **_: Any) -> Any:
        return None

    @override
    def store(self, **_: Any) -> None:
        """Keep nothing."""

    @override
    def purge(self, **_: Any) -> None:
        """There is nothing."""

    @override
    def touch(self, **_: Any) -> None:
        """Touch nothing."""

    @override
    def clear(self, *, essence: Any) -> Any:
        return essence
