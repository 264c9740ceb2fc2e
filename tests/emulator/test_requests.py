"""What the operator asks of the API server: little, nothing twice, nothing when nothing happens."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.emulator.audit import AuditLog, Request
from tests.emulator.jobs import parameter_server
from tests.emulator.space import Space

QUIET_SECONDS = 10


def in_words(requests: list[Request]) -> Counter[str]:
    return Counter(f"{request.verb} {request.resource}" for request in requests)


async def test_a_job_of_seven_pods_costs_no_more_than_its_budget(space: Space, audit: AuditLog) -> None:
    await space.submit(parameter_server("digits", workers=4, ps=2))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.until(lambda: set(space.pods()) == {"digits-chief-0"}, "what still ran was stopped")
    await space.until(
        lambda: not space.watch("Service").objects and not space.watch("NetworkPolicy").objects,
        "Service and NetworkPolicy are gone",
    )
    await settled(space, audit)
    asked = in_words(audit.requests(namespace=space.name))
    status_writes, events = asked.pop("patch disttrainjobs/status"), asked.pop("create events")
    assert asked == {
        "create pods": 7,
        "create services": 1,
        "create networkpolicies": 1,
        "delete pods": 6,
        "delete services": 1,
        "delete networkpolicies": 1,
    }
    assert status_writes <= 5
    assert events <= 5


async def test_a_running_job_costs_nothing(space: Space, audit: AuditLog) -> None:
    await space.submit(parameter_server("digits", workers=4, ps=2))
    await space.phase("digits", "Running")
    await settled(space, audit)
    before = audit.requests(namespace=space.name)
    await asyncio.sleep(QUIET_SECONDS)  # the absence of requests has no event to wait for
    assert audit.requests(namespace=space.name)[len(before) :] == []


async def test_a_finished_job_costs_nothing(space: Space, audit: AuditLog) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.until(lambda: not space.watch("NetworkPolicy").objects, "the job is cleaned up")
    await settled(space, audit)
    before = audit.requests(namespace=space.name)
    await asyncio.sleep(QUIET_SECONDS)
    assert audit.requests(namespace=space.name)[len(before) :] == []


async def settled(space: Space, audit: AuditLog) -> None:
    """Waits until what a change calls for, such as its event and a status that was held back, is done: two seconds
    without a request."""
    async with asyncio.timeout(30):
        seen = -1
        while seen != (now := len(audit.requests(namespace=space.name))):
            seen = now
            await asyncio.sleep(2)
