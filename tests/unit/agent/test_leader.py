"""A stop of ps and workers waits until the leader has nothing left to save."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from disttrain_agent import environment, leader
from disttrain_agent.environment import Settings
from disttrain_agent.status_server import StatusServer
from tests.unit.agent.harness import PATIENCE, UID, cluster, task


@pytest.fixture
def settings() -> Settings:
    return environment.read(task(cluster("ParameterServer", {"chief": 1, "worker": 1, "ps": 1}), "ps"))


class Chief:
    """A real status server where the chief's agent is expected; counts how often it was asked."""

    def __init__(self, settings: Settings, **document: Any) -> None:
        self.document = {"uid": UID, "state": "running", **document}
        self.asked = asyncio.Event()
        self._port = int(settings.cluster.agent_address("chief", 0).rpartition(":")[2])
        self._server = StatusServer(self._answer)

    def _answer(self) -> dict[str, Any]:
        self.asked.set()
        return self.document

    async def __aenter__(self) -> Self:
        await self._server.start(self._port, loopback=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def is_asked_again(self) -> None:
        self.asked.clear()
        await asyncio.wait_for(self.asked.wait(), PATIENCE)


@pytest.mark.parametrize("last", ["exited", "waiting"])
async def test_it_ends_when_the_leader_has_no_process(settings: Settings, last: str) -> None:
    async with Chief(settings) as chief:
        gone = asyncio.ensure_future(leader.until_gone(settings))
        await chief.is_asked_again()
        chief.document["state"] = "stopping"
        await chief.is_asked_again()
        assert not gone.done()
        chief.document["state"] = last
        await asyncio.wait_for(gone, PATIENCE)


async def test_it_ends_when_the_leaders_agent_is_gone(settings: Settings) -> None:
    async with Chief(settings) as chief:
        gone = asyncio.ensure_future(leader.until_gone(settings))
        await chief.is_asked_again()
    await asyncio.wait_for(gone, PATIENCE)


async def test_it_ends_when_another_job_has_the_leaders_address(settings: Settings) -> None:
    async with Chief(settings, uid="other"):
        await asyncio.wait_for(leader.until_gone(settings), PATIENCE)


async def test_it_ends_when_the_leader_trains_on(settings: Settings) -> None:
    """One worker is deleted or drained: nobody saves, so its replacement must not wait for the whole grace period."""
    async with Chief(settings):
        await asyncio.wait_for(leader.until_gone(settings, shared_stop_seconds=0), PATIENCE)


async def test_it_lasts_while_the_leader_saves(settings: Settings) -> None:
    async with Chief(settings, state="stopping") as chief:
        gone = asyncio.ensure_future(leader.until_gone(settings, shared_stop_seconds=0))
        await chief.is_asked_again()
        await chief.is_asked_again()
        assert not gone.done()
        chief.document["state"] = "exited"
        await asyncio.wait_for(gone, PATIENCE)
