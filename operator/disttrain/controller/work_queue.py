"""A queue of keys: each at most once, each by one worker at a time, all keys side by side.

Event-driven: a key is worked on when somebody adds it, when the time it asked for has come, after a back-off, or at
the resync. A key that fails for ever waits longer and longer by itself and takes nothing from the others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class TimerHandle(Protocol):
    """What `call_at` gives back."""

    def cancel(self) -> None:
        """Do not call after all."""


class Timers(Protocol):
    """The clock of the queue: an asyncio event loop, or a clock that a test turns by hand. Monotonic seconds."""

    def time(self) -> float:
        """Now."""

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> TimerHandle:
        """Call back at a time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the queue repeats work, in seconds."""

    backoff_base: float = 0.2
    backoff_cap: float = 300.0
    resync: float = 600.0
    rest_cap: float = 0.25
    """After a run a key rests as long as the run took, up to this: events that come in a swarm (a large job's pods)
    are taken together, and one key never uses more than half of the time."""
    jitter: float = 0.1
    """Share of a delay by which it is varied, so that jobs that began together do not come back together."""


class WorkQueue(Generic[K]):
    """Runs `handle(key)` for every key added.

    `handle` returns when it wants to be called again, in seconds (`math.inf`: only when something happens), or None
    when the key is gone and must be forgotten. When it raises, `on_failure(key, error, delay)` is told and the key
    comes again after `delay` seconds.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        on_failure: Callable[[K, Exception, float], None],
        *,
        timers: Timers,
        pace: Pace | None = None,
    ) -> None:
        self._handle = handle
        self._on_failure = on_failure
        self._timers = timers
        self._pace = pace or Pace()
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting_since: dict[K, float] = {}  # keys in `_ready`, in its order
        self._running: dict[K, float] = {}
        self._again: set[K] = set()  # added while running
        self._alarms: dict[K, tuple[float, TimerHandle]] = {}
        self._rest_until: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._workers: dict[asyncio.Task[None], K | None] = {}
        self._stopping = False
        self._progress_at = timers.time()

    # --- what is asked of it ---
    def add(self, key: K) -> None:
        """Work on a key as soon as a worker is free."""
        if self._stopping:
            return
        if key in self._running:
            self._again.add(key)
        elif self._rest_until.get(key, 0.0) > self._timers.time():
            self._arm(key, self._rest_until[key])
        elif key not in self._waiting_since:
            if not self._waiting_since:
                self._progress_at = self._timers.time()  # it was idle until now, not stuck
            self._waiting_since[key] = self._timers.time()
            self._ready.put_nowait(key)

    def add_at(self, key: K, when: float) -> None:
        """Work on a key at a time of the queue's clock, or before, if it is asked for."""
        if not self._stopping:
            self._arm(key, when)

    def start(self, workers: int) -> None:
        """Begin to work, on at most `workers` keys at once."""
        for number in range(workers):
            task = asyncio.create_task(self._work(), name=f"queue worker {number}")
            self._workers[task] = None

    async def stop(self, timeout: float) -> bool:  # noqa: ASYNC109  what still runs is told to end, not just left alone
        """Take no more keys and let what runs finish. False if some had to be cancelled after `timeout` seconds."""
        self._stopping = True
        for key in list(self._alarms):
            self._disarm(key)
        for worker, working_on in list(self._workers.items()):
            if working_on is None:
                worker.cancel()
        workers = list(self._workers)
        _, late = await asyncio.wait(workers, timeout=timeout) if workers else (set(), set())
        for worker in late:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        return not late

    # --- what can be seen of it ---
    @property
    def depth(self) -> int:
        """Keys that could be worked on now and wait for a worker."""
        return len(self._waiting_since)

    @property
    def oldest_age(self) -> float:
        """Seconds that the first key in line has waited; 0 with no key in line."""
        since = next(iter(self._waiting_since.values()), None)
        return 0.0 if since is None else self._timers.time() - since

    @property
    def stuck_for(self) -> float:
        """Seconds without any key begun or ended although keys wait. A long line that moves is not stuck."""
        return min(self.oldest_age, self._timers.time() - self._progress_at)

    @property
    def dead_workers(self) -> int:
        """Workers that ended though nobody stopped the queue. Always 0 but for a bug."""
        return 0 if self._stopping else sum(worker.done() for worker in self._workers)

    # --- how it does it ---
    def _arm(self, key: K, when: float) -> None:
        """One alarm for a key, the earliest: after every run the key's times are all computed anew."""
        earlier = self._alarms.get(key)
        if earlier is None or when < earlier[0]:
            self._disarm(key)
            self._alarms[key] = (when, self._timers.call_at(when, self._alarm, key))

    def _alarm(self, key: K) -> None:
        self._alarms.pop(key, None)
        self._rest_until.pop(key, None)  # the alarm is the rest's end, or an hour that was asked for
        self.add(key)

    def _disarm(self, key: K) -> None:
        alarm = self._alarms.pop(key, None)
        if alarm is not None:
            alarm[1].cancel()

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None  # noqa: S101  a coroutine of start() always runs in a task
        while not self._stopping:
            key = await self._ready.get()
            self._workers[worker] = key
            try:
                await self._work_on(key)
            finally:
                self._workers[worker] = None

    async def _work_on(self, key: K) -> None:
        self._waiting_since.pop(key, None)
        self._rest_until.pop(key, None)
        self._disarm(key)
        started = self._running[key] = self._progress_at = self._timers.time()
        try:
            again = await self._handle(key)
        except Exception as error:  # noqa: BLE001  one job's failure, whatever it is, must not end the work for others
            again = self._failed(key, error)
        else:
            self._failures.pop(key, None)
            if again is not None:
                again = min(again, self._varied(self._pace.resync))
        finally:
            del self._running[key]
            self._progress_at = self._timers.time()
        self._come_back(key, again, took=self._progress_at - started)

    def _come_back(self, key: K, again: float | None, took: float) -> None:
        now = self._timers.time()
        if again is not None:
            self.add_at(key, now + max(again, min(took, self._pace.rest_cap)))
            if took > 0:
                self._rest_until[key] = now + min(took, self._pace.rest_cap)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _failed(self, key: K, error: Exception) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        # 2 ** failures overflows a float after 1,000 failures of one key: bound the exponent, not only the result.
        delay = self._varied(min(self._pace.backoff_cap, self._pace.backoff_base * 2 ** min(failures - 1, 30)))
        self._on_failure(key, error, delay)
        return delay

    def _varied(self, delay: float) -> float:
        return delay * random.uniform(1 - self._pace.jitter, 1 + self._pace.jitter)  # noqa: S311  spreading, not secrecy
