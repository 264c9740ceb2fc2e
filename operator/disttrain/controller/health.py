"""Is the operator doing its work? `/healthz` for the kubelet's liveness probe, `/readyz` for readiness.

kopf's own endpoint says only that its event loop turns. Here every part that can die without a word is asked: the
listings, the watches, the queue and its workers, the event loop. A dead part is a 503 with the reason as JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web

from disttrain.controller.streams import StreamKey
from disttrain.controller.work_queue import TimerHandle, Timers

BEAT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each part may give no sign of life, in seconds."""

    listing: float = 60.0
    watch: float = 120.0
    """kopf connects again after 70 s without an event or bookmark; this leaves it time to be answered."""
    queue: float = 60.0
    loop: float = 10.0


class Watches(Protocol):
    """What is asked about the watches."""

    def unlisted_for(self) -> Mapping[StreamKey, float]:
        """Watches whose first listing is not complete, and since how many seconds."""

    def silences(self) -> Mapping[StreamKey, float]:
        """Seconds since each was last heard of."""


class Queue(Protocol):
    """What is asked about the queue."""

    @property
    def stuck_for(self) -> float:
        """Seconds without progress while keys wait."""

    @property
    def dead_workers(self) -> int:
        """Workers that ended by themselves."""


class LoopLag:
    """How late the event loop is: a beat every second, which a blocked loop cannot do."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._beat_at = timers.time()
        self._handle: TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._beat_at = self._timers.time()
        self._handle = self._timers.call_at(self._beat_at + BEAT_SECONDS, self.start)

    def stop(self) -> None:
        """Beat no more."""
        if self._handle is not None:
            self._handle.cancel()

    @property
    def seconds(self) -> float:
        """By how much the next beat is overdue; 0 if it is not."""
        return max(self._timers.time() - self._beat_at - BEAT_SECONDS, 0.0)


class Health:
    """Answers for all parts. `stopping` is set by the owner when the operator begins to stop."""

    def __init__(self, watches: Watches, queue: Queue, lag: LoopLag, limits: Limits | None = None) -> None:
        self._watches = watches
        self._queue = queue
        self._lag = lag
        self._limits = limits or Limits()
        self.stopping = False

    def liveness(self) -> dict[str, str]:
        """What is dead, by part, and why; empty when all is well."""
        return _found(
            {
                "listing": _first(self._watches.unlisted_for(), self._limits.listing, "has not been listed for"),
                "watch": _first(self._watches.silences(), self._limits.watch, "has had no event or bookmark for"),
                "queue": self._queue_fault(),
                "loop": self._loop_fault(),
            }
        )

    def readiness(self) -> dict[str, str]:
        """Why the operator does not serve jobs now; empty when it does."""
        unlisted = ", ".join(str(stream) for stream in self._watches.unlisted_for())
        unready = {
            "stopping": "the operator is stopping" if self.stopping else "",
            "listing": f"not listed yet: {unlisted}" if unlisted else "",
        }
        return _found(unready) | self.liveness()

    def _loop_fault(self) -> str:
        late = self._lag.seconds
        return f"the event loop is {late:.0f} s late" if late > self._limits.loop else ""

    def _queue_fault(self) -> str:
        if self._queue.dead_workers:
            return f"{self._queue.dead_workers} workers have died"
        stuck = self._queue.stuck_for
        return f"jobs wait and none was looked at for {stuck:.0f} s" if stuck > self._limits.queue else ""


def health_app(health: Health) -> web.Application:
    """`GET /healthz` and `GET /readyz`."""
    app = web.Application()
    app.router.add_get("/healthz", _route(health.liveness))
    app.router.add_get("/readyz", _route(health.readiness))
    return app


def _route(check: Callable[[], dict[str, str]]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.Response:
        problems = check()
        if problems:
            return web.json_response({"status": "failed", "problems": problems}, status=503)
        return web.json_response({"status": "ok"})

    return answer


def _first(ages: Mapping[StreamKey, float], limit: float, words: str) -> str:
    return next((f"{stream} {words} {age:.0f} s" for stream, age in ages.items() if age > limit), "")


def _found(problems: Mapping[str, str]) -> dict[str, str]:
    return {part: reason for part, reason in problems.items() if reason}
