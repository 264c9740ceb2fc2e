"""The client's limit: a burst at once, then the rate, and nothing at all during a pause."""

from __future__ import annotations

import pytest

from disttrain.controller.rate_limit import RateLimiter


class Clock:
    """Sleeping turns it."""

    def __init__(self) -> None:
        self.now = 50.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_burst_passes_at_once(clock: Clock) -> None:
    limiter = RateLimiter(8, 4, time=clock.time, sleep=clock.sleep)
    for _ in range(4):
        await limiter.acquire()
    assert clock.now == 50.0


async def test_after_the_burst_requests_pass_at_the_rate(clock: Clock) -> None:
    limiter = RateLimiter(8, 4, time=clock.time, sleep=clock.sleep)
    for _ in range(20):
        await limiter.acquire()
    assert clock.now == pytest.approx(52.0)


async def test_what_was_not_used_comes_back_up_to_the_burst(clock: Clock) -> None:
    limiter = RateLimiter(8, 4, time=clock.time, sleep=clock.sleep)
    for _ in range(4):
        await limiter.acquire()
    clock.now += 1000
    for _ in range(5):
        await limiter.acquire()
    assert clock.now == pytest.approx(1050.125)


async def test_a_pause_holds_back_everything(clock: Clock) -> None:
    limiter = RateLimiter(8, 4, time=clock.time, sleep=clock.sleep)
    limiter.pause(3)
    await limiter.acquire()
    assert clock.now == 53.0


async def test_a_shorter_pause_does_not_end_a_longer_one(clock: Clock) -> None:
    limiter = RateLimiter(8, 4, time=clock.time, sleep=clock.sleep)
    limiter.pause(3)
    limiter.pause(1)
    await limiter.acquire()
    assert clock.now == 53.0
