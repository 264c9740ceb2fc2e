"""The client's own limit on requests: a rate with a burst, and a pause when the API server asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class RateLimiter:
    """At most `rate` requests a second in the long run and `burst` at once (generic cell rate algorithm).

    Requests pass in the order in which they came. `time` is in monotonic seconds.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        time: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._interval = 1 / rate
        self._tolerance = burst / rate
        self._time = time
        self._sleep = sleep
        self._arrival = 0.0  # when the last request would have come at exactly `rate`
        self._paused_until = 0.0

    async def acquire(self) -> None:
        """Wait until the next request may be sent."""
        now = self._time()
        self._arrival = max(self._arrival, now) + self._interval
        delay = max(self._arrival - self._tolerance - now, self._paused_until - now)
        while delay > 0:
            await self._sleep(delay)
            delay = self._paused_until - self._time()  # a pause may have been asked for meanwhile

    def pause(self, seconds: float) -> None:
        """Send nothing for a while (429 with Retry-After): one answer holds back all requests, not only its own."""
        self._paused_until = max(self._paused_until, self._time() + seconds)
