"""The gate opens when every peer of this job is there, and says until then who is not, and why."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from disttrain_agent import environment, gate
from disttrain_agent.cluster import Cluster
from disttrain_agent.gate import Expected, Gate, PeersMissingError, objection
from disttrain_agent.status_server import StatusServer
from tests.unit.agent.harness import PATIENCE, UID, cluster, task

EXPECTED = Expected(UID, "worker", 1, attempt=2)
PEER = {"uid": UID, "role": "worker", "index": 1, "attempt": 2, "state": "waiting"}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, None),
        ({"state": "running"}, None),
        ({"state": "exited", "exitCode": 0}, None),
        ({"uid": "other"}, f"answers for another job (uid other, this job's is {UID})"),
        ({"uid": None}, f"answers for another job (uid None, this job's is {UID})"),
        ({"role": "chief", "index": 0}, "answers as chief-0"),
        ({"attempt": 1}, "is of an older attempt (1, this is 2)"),
        ({"attempt": 3}, "is of another attempt (3, this is 2)"),
        ({"attempt": "2"}, "is of another attempt (2, this is 2)"),
        ({"state": "exited", "exitCode": 1}, "is exited"),
        ({"state": "stopping"}, "is stopping"),
        ({"state": "\x1b[31m" + "x" * 99}, "is [31m" + "x" * 35),
    ],
)
def test_a_peer_is_judged_by_its_status(changes: Mapping[str, Any], complaint: str | None) -> None:
    assert objection({**PEER, **changes}, EXPECTED) == complaint


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_where_roles_restart_alone_any_attempt_will_do(attempt: int) -> None:
    assert objection({**PEER, "attempt": attempt}, replace(EXPECTED, attempt=None)) is None


@contextlib.asynccontextmanager
async def peer(described: Cluster, index: int, document: Mapping[str, Any] | None = None) -> AsyncIterator[None]:
    """A real status server where worker `index` is expected."""
    server = StatusServer(lambda: dict(document or {**PEER, "index": index}))
    port = int(described.agents["worker"][index].rpartition(":")[2])
    await server.start(port, loopback=True)
    try:
        yield
    finally:
        server.close()


def gate_of(described: Cluster, seconds: float = PATIENCE) -> Gate:
    environ = task(described, attempt=2, ENV_GATE_SECONDS=str(seconds))
    return Gate(environment.read(environ), changed=lambda: None)


async def until(described: Gate, *expected: str) -> None:
    """Until `waiting_for` says exactly this."""
    async with asyncio.timeout(PATIENCE):
        while list(described.waiting_for()) != list(expected):  # noqa: ASYNC110  (with a deadline)
            await asyncio.sleep(0.01)


async def waits_for(described: Cluster, *expected: str) -> None:
    """The gate of worker 0 comes to wait for exactly this."""
    door = gate_of(described)
    waiting = asyncio.ensure_future(door.wait())
    await until(door, *expected)
    waiting.cancel()


def port_of(described: Cluster, index: int) -> str:
    return described.agents["worker"][index].rpartition(":")[2]


async def test_without_peers_it_is_open() -> None:
    await gate_of(cluster("Mirrored", {"worker": 1})).wait()


async def test_it_opens_when_the_last_peer_appears() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 3})
    door = gate_of(described)
    waiting = asyncio.ensure_future(door.wait())
    async with peer(described, 1):
        await until(door, f"worker-2: refuses connections to port {port_of(described, 2)}")
        async with peer(described, 2):
            await waiting
    assert door.waiting_for() == []


async def test_a_foreign_peer_is_named_as_such() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    async with peer(described, 1, {**PEER, "uid": "other"}):
        await waits_for(described, f"worker-1: answers for another job (uid other, this job's is {UID})")


async def test_a_peer_of_an_older_attempt_is_waited_for() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    older = {**PEER, "attempt": 1}
    door = gate_of(described)
    waiting = asyncio.ensure_future(door.wait())
    async with peer(described, 1, older):
        await until(door, "worker-1: is of an older attempt (1, this is 2)")
        older["attempt"] = 2
        await waiting


async def test_the_deadline_names_who_is_missing() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 3})
    with pytest.raises(
        PeersMissingError, match=r"0.05 s \(DISTTRAIN_GATE_SECONDS\).* missing: worker-1: .*; worker-2: "
    ):
        await gate_of(described, seconds=0.05).wait()


async def test_a_name_that_does_not_resolve_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    described = replace(cluster("MultiWorkerMirrored", {"worker": 2}), addresses={}, agents={})
    await waits_for(described, "worker-1: its name does not resolve (Name or service not known)")


async def test_something_that_is_no_agent_is_named_as_such() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail ready\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", int(port_of(described, 1))):
        await waits_for(described, "worker-1: answers, but not as an agent does")


async def test_a_peer_without_an_agent_counts_when_its_tensorflow_port_accepts() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    port = int(described.addresses["worker"][1].rpartition(":")[2])

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", port):
        await gate_of(described).wait()


async def test_a_big_job_tries_few_peers_at_a_time_and_names_fewer() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 3000}, local=False)
    described = replace(described, agents={"worker": ["127.0.0.1:1"] * 3000})
    door = Gate(environment.read(task(described, attempt=2, ENV_AGENT_PORT="0")), changed=lambda: None)
    waiting = asyncio.ensure_future(door.wait())
    refused = [f"worker-{n}: refuses connections to port 1" for n in range(1, gate.MAX_NAMED + 1)]
    await until(door, *refused, f"and {2999 - gate.MAX_NAMED} more")
    waiting.cancel()


async def test_it_opens_for_a_big_job_too() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 300}, local=False)
    server = StatusServer(lambda: {**PEER, "index": next(indexes)})
    port = await server.start(0, loopback=True)
    described = replace(described, agents={"worker": [f"127.0.0.1:{port}"] * 300})
    settings = environment.read(task(described, attempt=2, ENV_AGENT_PORT="0"))
    indexes = iter(range(1, 300))
    # One server stands for all peers, so it must be asked in order.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "FAN_OUT", 1)
        await Gate(settings, changed=lambda: None).wait()
    server.close()
    assert next(indexes, None) is None  # each was asked once
