"""`/healthz` turns bad when a part is dead, and says which. Each part is killed here, one at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from disttrain.controller.health import Health, LoopLag, health_app
from disttrain.controller.streams import StreamKey
from disttrain.controller.work_queue import WorkQueue
from tests.unit.controller.fakes import FakeTimers, settle

PODS = StreamKey("pods", "")


class FakeWatches:
    """Ages that the test sets."""

    def __init__(self) -> None:
        self.unlisted: dict[StreamKey, float] = {}
        self.silence: dict[StreamKey, float] = {PODS: 1.0}

    def unlisted_for(self) -> dict[StreamKey, float]:
        return self.unlisted

    def silences(self) -> dict[StreamKey, float]:
        return self.silence


class Patient:
    """Health over a real queue, fake watches and a clock that the test turns."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.watches = FakeWatches()
        self.release = asyncio.Event()
        self.queue: WorkQueue[str] = WorkQueue(self._handle, lambda *_: None, timers=self.timers)
        self.lag = LoopLag(self.timers)
        self.health = Health(self.watches, self.queue, self.lag)
        self.client = TestClient(TestServer(health_app(self.health)))

    async def _handle(self, key: str) -> float:
        await self.release.wait()
        return math.inf

    async def get(self, path: str) -> tuple[int, dict[str, str]]:
        response = await self.client.get(path)
        return response.status, (await response.json()).get("problems", {})


@pytest.fixture
async def patient() -> AsyncIterator[Patient]:
    patient = Patient()
    patient.queue.start(1)
    patient.lag.start()
    async with patient.client:
        yield patient
    patient.release.set()
    await patient.queue.stop(timeout=5)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_all_is_well(patient: Patient, path: str) -> None:
    assert await patient.get(path) == (200, {})


async def test_a_watch_without_event_or_bookmark_is_dead(patient: Patient) -> None:
    patient.watches.silence[PODS] = 121.0
    assert await patient.get("/healthz") == (
        503,
        {"watch": "pods in all namespaces has had no event or bookmark for 121 s"},
    )


async def test_a_watch_that_is_quiet_for_less_than_the_limit_is_not(patient: Patient) -> None:
    patient.watches.silence[PODS] = 119.0
    assert await patient.get("/healthz") == (200, {})


async def test_a_listing_that_does_not_end_is_dead(patient: Patient) -> None:
    patient.watches.unlisted[PODS] = 61.0
    status, problems = await patient.get("/healthz")
    assert (status, problems["listing"]) == (503, "pods in all namespaces has not been listed for 61 s")


async def test_until_all_is_listed_the_operator_is_alive_but_not_ready(patient: Patient) -> None:
    patient.watches.unlisted[PODS] = 2.0
    assert (await patient.get("/healthz"))[0] == 200
    assert await patient.get("/readyz") == (503, {"listing": "not listed yet: pods in all namespaces"})


async def test_a_queue_that_does_not_move_is_dead(patient: Patient) -> None:
    patient.queue.add("blocked")
    await settle()
    patient.queue.add("waits")
    for _ in range(61):
        patient.timers.advance(1)
    assert await patient.get("/healthz") == (503, {"queue": "jobs wait and none was looked at for 61 s"})


async def test_a_queue_that_moves_again_is_well_again(patient: Patient) -> None:
    patient.queue.add("blocked")
    await settle()
    patient.queue.add("waits")
    for _ in range(61):
        patient.timers.advance(1)
    patient.release.set()
    await settle()
    assert await patient.get("/healthz") == (200, {})


async def test_a_dead_worker_is_seen_at_once(patient: Patient) -> None:
    next(task for task in asyncio.all_tasks() if task.get_name().startswith("queue worker")).cancel()
    await settle()
    assert await patient.get("/healthz") == (503, {"queue": "1 workers have died"})


async def test_an_event_loop_that_is_late_is_dead(patient: Patient) -> None:
    patient.lag.stop()  # as if the loop had not come to the next beat
    patient.timers.advance(12)
    assert await patient.get("/healthz") == (503, {"loop": "the event loop is 11 s late"})


async def test_an_operator_that_stops_is_not_ready_but_alive(patient: Patient) -> None:
    patient.health.stopping = True
    assert (await patient.get("/healthz"))[0] == 200
    assert await patient.get("/readyz") == (503, {"stopping": "the operator is stopping"})
