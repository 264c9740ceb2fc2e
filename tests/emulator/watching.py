"""What happens to the objects of one namespace, as it happens: tests wait for events, never for time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.emulator.kube import Kube, Manifest

PATIENCE_SECONDS = 40.0
"""For one thing to happen. Reached only when it does not happen at all: a loaded machine is slow, not wrong."""

View = dict[str, Manifest]
"""The objects of one kind that exist, by name."""


@dataclass(frozen=True)
class Change:
    """One watch event: ADDED, MODIFIED or DELETED, with the object as it was then."""

    type: str
    object: Manifest

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


@dataclass
class Watch:
    """One kind's objects now, and all that happened to them since the watch began."""

    kind: str
    objects: View = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)

    def versions(self, name: str) -> list[Manifest]:
        """Every state of an object that was seen, oldest first, deletion apart."""
        return [change.object for change in self.history if change.name == name and change.type != "DELETED"]


class Watches:
    """The watches of one namespace. Use as an asynchronous context manager."""

    def __init__(self, kube: Kube, namespace: str, kinds: tuple[str, ...]) -> None:
        self._kube = kube
        self._namespace = namespace
        self.of = {kind: Watch(kind) for kind in kinds}
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow(watch)) for watch in self.of.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def until(self, ready: Callable[[], Any], what: str, describe: Callable[[], str]) -> Any:
        """Waits until `ready` gives something true, asked after every change, and returns that.

        Fails the test with `what` was awaited and what `describe` says is there instead.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not (result := ready()):
                        self._raise_broken()
                        await self._changed.wait()
            except TimeoutError:
                raise AssertionError(f"{what}: not within {PATIENCE_SECONDS:.0f} s.\n{describe()}") from None
        return result

    def _raise_broken(self) -> None:
        """A watch that ended would let its test wait in vain."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _follow(self, watch: Watch) -> None:
        try:
            async for event in self._kube.watch(watch.kind, self._namespace):
                await self._take(watch, event)
            raise AssertionError(f"the watch of {watch.kind} ended")
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def _take(self, watch: Watch, event: Manifest) -> None:
        change = Change(event["type"], event["object"])
        if change.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise AssertionError(f"the watch of {watch.kind} broke: {event}")
        async with self._changed:
            watch.history.append(change)
            if change.type == "DELETED":
                watch.objects.pop(change.name, None)
            else:
                watch.objects[change.name] = change.object
            self._changed.notify_all()
