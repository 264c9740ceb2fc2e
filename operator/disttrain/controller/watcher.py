"""kopf, run inside our own process and event loop, as a watcher."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
import kopf

from disttrain import handlers
from disttrain.controller.connection import Connection
from disttrain.controller.intake import Intake
from disttrain.controller.keys import RESOURCES, WATCHED
from disttrain.controller.streams import Streams

STOP_SECONDS: Final = 1.5
LOGIN_AGAIN_SECONDS: Final = 10.0
"""kopf logs in again after a broken TLS session; twice in so short a time means that the API server refuses us."""


class Watcher:
    """Runs kopf and stops it."""

    def __init__(self, connection: Connection, streams: Streams, intake: Intake, namespaces: tuple[str, ...]) -> None:
        self._connection = connection
        self._streams = streams
        self._namespaces = namespaces
        self._registry = kopf.OperatorRegistry()  # an empty one: the default one would log in by whatever it finds
        resources = {kind: (RESOURCES[kind].group, RESOURCES[kind].version, RESOURCES[kind].plural) for kind in WATCHED}
        handlers.register(self._registry, resources, intake, self._login)
        self._settings = kopf.OperatorSettings()
        handlers.configure(self._settings, resources)
        self._sessions: list[aiohttp.ClientSession] = []
        self._logged_in_at = float("-inf")
        self._refused = ""
        self._stop = asyncio.Event()
        self._parts: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to watch. Every task begun later than this is taken by kopf for its own, and ended with it."""
        self._others = asyncio.all_tasks()
        parts = await kopf.spawn_tasks(
            registry=self._registry,
            settings=self._settings,
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )
        self._parts = set(parts)

    async def failure(self) -> str:
        """Wait until a part of kopf has ended, which it does only when it has failed, and say why."""
        done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        error = next((task.exception() for task in done if not task.cancelled()), None)
        return self._refused or f"watching has ended: {error or 'kopf stopped'}"

    async def stop(self) -> bool:
        """End kopf. False if it does not end: after a failure of a part of it, others may wait for ever."""
        self._stop.set()
        ending = asyncio.create_task(kopf.run_tasks(self._parts, ignored=self._others))
        await asyncio.wait({ending}, timeout=STOP_SECONDS)
        ended = ending.done()
        if ended and not ending.cancelled():
            ending.exception()  # it was told of by `failure`; looked at here so that asyncio does not tell it again
        for session in self._sessions:
            await session.close()
        return ended

    async def _login(self) -> kopf.AiohttpSession:
        """A session with our credentials, which renew themselves (`Authentication`)."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_in_at < LOGIN_AGAIN_SECONDS:
            # kopf would wait for ever for a login that never succeeds.
            self._refused = f"the API server no longer accepts the credentials of {self._connection.access}"
            self._stop.set()
            raise kopf.PermanentError(self._refused)
        self._logged_in_at = now
        session = self._connection.open_session(self._streams)
        self._sessions.append(session)
        return kopf.AiohttpSession(server=self._connection.host, aiohttp_session=session)
