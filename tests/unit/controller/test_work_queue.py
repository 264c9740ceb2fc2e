"""The queue: each key once, one worker for a key, keys side by side, and a failing key takes nothing from others."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from disttrain.controller.work_queue import Pace, WorkQueue
from tests.unit.controller.fakes import FakeTimers, settle

Handler = Callable[[str], Awaitable[float | None]]


class Desk:
    """A queue whose handler writes down what it was called with, and does what the test says."""

    def __init__(self, pace: Pace) -> None:
        self.timers = FakeTimers()
        self.handled: list[str] = []
        self.failures: list[tuple[str, float]] = []
        self.answers: dict[str, float | None] = {}
        self.errors: dict[str, Exception] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.queue: WorkQueue[str] = WorkQueue(self._handle, self._failed, timers=self.timers, pace=pace)

    async def _handle(self, key: str) -> float | None:
        self.handled.append(key)
        if key in self.gates:
            await self.gates[key].wait()
        if key in self.errors:
            raise self.errors[key]
        return self.answers.get(key, math.inf)

    def _failed(self, key: str, error: Exception, delay: float) -> None:
        self.failures.append((key, delay))

    def block(self, key: str) -> asyncio.Event:
        self.gates[key] = asyncio.Event()
        return self.gates[key]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk(Pace(backoff_base=1.0, backoff_cap=60.0, resync=600.0, jitter=0.0))
    desk.queue.start(2)
    yield desk
    for gate in desk.gates.values():
        gate.set()
    await desk.queue.stop(timeout=5)


async def test_a_key_added_many_times_before_it_is_taken_is_handled_once(desk: Desk) -> None:
    for _ in range(5):
        desk.queue.add("a")
    await settle()
    assert desk.handled == ["a"]


async def test_a_key_added_while_it_is_handled_is_handled_again_afterwards(desk: Desk) -> None:
    gate = desk.block("a")
    desk.queue.add("a")
    await settle()
    desk.queue.add("a")
    desk.queue.add("a")
    await settle()
    assert desk.handled == ["a"], "never two workers on one key"
    gate.set()
    await settle()
    assert desk.handled == ["a", "a"]


async def test_a_blocked_key_does_not_hold_up_others(desk: Desk) -> None:
    desk.block("slow")
    desk.queue.add("slow")
    for key in ("a", "b", "c"):
        desk.queue.add(key)
    await settle()
    assert desk.handled == ["slow", "a", "b", "c"]


async def test_a_key_is_handled_again_when_it_asked_to_be(desk: Desk) -> None:
    desk.answers["a"] = 30.0
    desk.queue.add("a")
    await settle()
    desk.timers.advance(29)
    await settle()
    assert desk.handled == ["a"]
    desk.timers.advance(1)
    await settle()
    assert desk.handled == ["a", "a"]


async def test_an_event_comes_before_the_time_asked_for_and_replaces_it(desk: Desk) -> None:
    desk.answers["a"] = 30.0
    desk.queue.add("a")
    await settle()
    desk.answers["a"] = 100.0
    desk.queue.add("a")
    await settle()
    desk.timers.advance(99)
    await settle()
    assert desk.handled == ["a", "a"]


async def test_every_live_key_is_handled_again_at_the_resync(desk: Desk) -> None:
    desk.queue.add("a")
    await settle()
    desk.timers.advance(600)
    await settle()
    assert desk.handled == ["a", "a"]


async def test_a_key_that_is_gone_is_forgotten(desk: Desk) -> None:
    desk.answers["a"] = None
    desk.queue.add("a")
    await settle()
    desk.timers.advance(10_000)
    await settle()
    assert desk.handled == ["a"]


async def test_a_failing_key_waits_twice_as_long_each_time_up_to_the_cap(desk: Desk) -> None:
    desk.errors["bad"] = RuntimeError("again")
    desk.queue.add("bad")
    for _ in range(9):
        await settle()
        desk.timers.advance(60)
    assert [delay for _, delay in desk.failures[:8]] == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_success_ends_the_backoff(desk: Desk) -> None:
    desk.errors["a"] = RuntimeError("once")
    desk.queue.add("a")
    await settle()
    desk.timers.advance(1)
    await settle()
    del desk.errors["a"]
    desk.timers.advance(2)
    await settle()
    desk.errors["a"] = RuntimeError("later")
    desk.queue.add("a")
    await settle()
    assert [delay for _, delay in desk.failures] == [1, 2, 1]


async def test_a_key_that_fails_for_ever_does_not_slow_another(desk: Desk) -> None:
    desk.errors["bad"] = RuntimeError("for ever")
    for _ in range(50):
        desk.queue.add("bad")
        await settle()
    desk.queue.add("good")
    await settle()
    assert desk.handled[-1] == "good"
    assert desk.queue.dead_workers == 0


async def test_a_key_that_has_failed_a_thousand_times_still_has_a_delay(desk: Desk) -> None:
    desk.errors["bad"] = RuntimeError("for ever")
    for _ in range(1100):
        desk.queue.add("bad")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert desk.failures[-1] == ("bad", 60.0)


async def test_a_swarm_of_events_is_taken_together_after_a_long_run() -> None:
    desk = Desk(Pace(rest_cap=0.25, jitter=0.0))
    desk.queue.start(1)
    gate = desk.block("large")
    desk.queue.add("large")
    await settle()
    desk.timers.advance(5)  # the run takes 5 s
    gate.set()
    await settle()
    desk.queue.add("large")
    desk.queue.add("large")
    await settle()
    assert desk.handled == ["large"], "it rests"
    desk.timers.advance(0.25)
    await settle()
    assert desk.handled == ["large", "large"]
    await desk.queue.stop(timeout=5)


async def test_stop_waits_for_what_runs_and_begins_nothing_more(desk: Desk) -> None:
    gate_a, gate_b = desk.block("a"), desk.block("b")
    for key in ("a", "b", "c"):
        desk.queue.add(key)
    await settle()
    stopping = asyncio.create_task(desk.queue.stop(timeout=5))
    await settle()
    assert not stopping.done()
    gate_a.set()
    gate_b.set()
    assert await stopping is True
    assert desk.handled == ["a", "b"]


async def test_stop_cancels_what_does_not_end_in_time(desk: Desk) -> None:
    desk.block("a")
    desk.queue.add("a")
    await settle()
    assert await desk.queue.stop(timeout=0) is False


async def test_a_stopped_queue_takes_no_keys(desk: Desk) -> None:
    await desk.queue.stop(timeout=5)
    desk.queue.add("a")
    desk.queue.add_at("b", desk.timers.time())
    desk.timers.advance(1000)
    await settle()
    assert desk.handled == []


async def test_depth_and_age_are_those_of_the_keys_in_line(desk: Desk) -> None:
    desk.block("a")
    desk.block("b")
    for key in ("a", "b", "c", "d"):
        desk.queue.add(key)
    await settle()
    desk.timers.advance(7)
    assert (desk.queue.depth, desk.queue.oldest_age) == (2, 7.0)


async def test_a_line_that_does_not_move_is_stuck(desk: Desk) -> None:
    desk.block("a")
    desk.block("b")
    for key in ("a", "b", "c"):
        desk.queue.add(key)
    await settle()
    desk.timers.advance(61)
    assert desk.queue.stuck_for == 61


async def test_a_long_line_that_moves_is_not_stuck(desk: Desk) -> None:
    desk.block("a")
    gate = desk.block("b")
    for key in ("a", "b", "c", "d"):
        desk.queue.add(key)
    await settle()
    desk.timers.advance(61)
    desk.block("c")
    gate.set()
    await settle()
    assert desk.queue.oldest_age == 61
    assert desk.queue.stuck_for == 0


async def test_keys_that_only_wait_for_their_time_are_not_in_line(desk: Desk) -> None:
    desk.answers["a"] = 300.0
    desk.queue.add("a")
    await settle()
    desk.timers.advance(200)
    assert (desk.queue.depth, desk.queue.stuck_for) == (0, 0.0)


async def test_a_worker_that_ended_by_itself_is_seen(desk: Desk) -> None:
    workers = [task for task in asyncio.all_tasks() if task.get_name().startswith("queue worker")]
    workers[0].cancel()
    await settle()
    assert desk.queue.dead_workers == 1
