"""The node in place of API server and kubelet: what it starts, what it lets the core see, what it leaves behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from disttrain.core.model import Delete, Pod
from disttrain.local.errors import LocalError
from disttrain.local.jobdir import JobDir
from disttrain.local.launch import Launch
from disttrain.local.node import Node

LAST_WORD = '{"version":1,"attempt":1,"progress":{"step":7},"error":"out of data"}'


@dataclass(frozen=True)
class Scripted:
    """Runs one Python program for every pod, with the path of its termination log as argument."""

    program: str
    directory: Path

    def launch(self, pod: dict[str, Any], termination_log: Path, parent_fd: int) -> Launch:
        return Launch((sys.executable, "-c", self.program, str(termination_log)), dict(os.environ), self.directory)

    def agent_address(self, role: str, index: int) -> str:
        return "127.0.0.1:1"  # nobody answers there


def pod(attempt: int = 1, grace: int = 30) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "digits-worker-0",
            "labels": {
                "disttrain.dev/role": "worker",
                "disttrain.dev/index": "0",
                "disttrain.dev/attempt": str(attempt),
            },
            "ownerReferences": [{"uid": "job-uid", "name": "digits", "controller": True}],
        },
        "spec": {"terminationGracePeriodSeconds": grace, "containers": [{"name": "trainer"}]},
    }


class World:
    """A node and what a test asks of it."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def pods(self) -> tuple[Pod, ...]:
        return self.node.observed().pods

    async def until_ended(self) -> Pod:
        """The pod, once its process has ended."""
        while True:
            self.node.changed.clear()
            [only] = self.pods()
            if only.exit is not None:
                return only
            async with asyncio.timeout(30):
                await self.node.changed.wait()

    async def until_gone(self) -> None:
        while True:
            self.node.changed.clear()
            if not self.pods():
                return
            async with asyncio.timeout(30):
                await self.node.changed.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds: for what other processes do, which sets no event here."""
    async with asyncio.timeout(30):
        for pause in itertools.repeat(0.02):
            if condition():
                return
            await asyncio.sleep(pause)


@pytest_asyncio.fixture
async def start(tmp_path: Path) -> AsyncIterator[Any]:
    """Makes a node whose pods run a given program."""
    directory = JobDir(tmp_path)
    directory.make(tmp_path)
    ours, theirs = os.pipe()
    opened: list[Node] = []

    async def make(program: str) -> World:
        node = Node(directory, Scripted(program, tmp_path), ours, lambda: datetime.now(UTC))
        opened.append(await node.__aenter__())
        return World(node)

    yield make
    for node in opened:
        await node.__aexit__(None, None, None)
    os.close(ours)
    os.close(theirs)


SLEEP = "import time; time.sleep(600)"


async def test_a_created_pod_runs_and_is_ready(start) -> None:
    world = await start(SLEEP)
    await world.node.create(pod())
    [only] = world.pods()
    assert (only.role, only.index, only.attempt, only.owner_uid) == ("worker", 0, 1, "job-uid")
    assert (only.running, only.ready, only.exit) == (True, True, None)


@pytest.mark.parametrize(("program", "code"), [("", 0), ("raise SystemExit(3)", 3), ("import os; os.abort()", 134)])
async def test_the_exit_code_is_observed(start, program: str, code: int) -> None:
    world = await start(program)
    await world.node.create(pod())
    ended = await world.until_ended()
    assert ended.exit is not None
    assert (ended.running, ended.exit.code) == (False, code)


async def test_the_agents_last_word_is_observed(start) -> None:
    world = await start(f"import sys, pathlib; pathlib.Path(sys.argv[1]).write_text({LAST_WORD!r}); sys.exit(1)")
    await world.node.create(pod())
    ended = await world.until_ended()
    assert ended.exit is not None
    assert ended.exit.report is not None
    assert (ended.exit.report.step, ended.exit.message) == (7, "out of data")


async def test_a_deleted_pod_is_deleting_until_its_process_has_ended_and_seen_once_with_its_exit(start) -> None:
    world = await start(SLEEP)
    await world.node.create(pod())
    [before] = world.pods()
    world.node.delete(Delete("Pod", before.name, before.uid))
    [deleting] = world.pods()
    assert (deleting.deleting, deleting.exit) == (True, None)
    ended = await world.until_ended()
    assert (ended.exit.code, ended.disruption) == (143, "PodDeleted")
    assert world.pods() == ()


async def test_a_delete_with_another_uid_hits_nothing(start) -> None:
    world = await start(SLEEP)
    await world.node.create(pod())
    world.node.delete(Delete("Pod", "digits-worker-0", "of a predecessor"))
    [still] = world.pods()
    assert not still.deleting


async def test_a_process_that_ignores_sigterm_is_killed_after_its_grace_period(start, monkeypatch) -> None:
    monkeypatch.setattr("disttrain.local.process.KILL_MARGIN_SECONDS", 0.1)
    ready = "import signal, time, sys, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path(sys.argv[1]).touch(); "
    world = await start(ready + "time.sleep(600)")
    await world.node.create(pod(grace=0))
    [before] = world.pods()
    termination = world.node.latest["worker", 0].log.parents[1] / "termination" / "digits-worker-0-1"
    await until(termination.exists)
    world.node.delete(Delete("Pod", before.name, before.uid))
    assert (await world.until_ended()).exit.code == 137


async def test_an_ended_pod_is_gone_as_soon_as_it_is_deleted(start) -> None:
    world = await start("")
    await world.node.create(pod())
    ended = await world.until_ended()
    world.node.delete(Delete("Pod", ended.name, ended.uid))
    assert world.pods() == ()


async def test_a_name_is_free_again_after_its_pod_is_gone(start) -> None:
    world = await start("")
    await world.node.create(pod())
    ended = await world.until_ended()
    world.node.delete(Delete("Pod", ended.name, ended.uid))
    await world.until_gone()
    await world.node.create(pod(attempt=2))
    assert [one.attempt for one in world.pods()] == [2]


async def test_services_and_policies_are_only_noted(start) -> None:
    world = await start("")
    metadata = {"name": "digits", "ownerReferences": [{"uid": "job-uid", "controller": True}]}
    await world.node.create({"kind": "Service", "metadata": metadata})
    [child] = world.node.observed().children
    assert (child.kind, child.name, child.owner_uid) == ("Service", "digits", "job-uid")
    world.node.delete(Delete("Service", "digits", child.uid))
    assert world.node.observed().children == ()


async def test_what_a_process_started_in_its_group_ends_with_it(start, tmp_path: Path) -> None:
    world = await start(
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600']); open('child', 'w').write(str(child.pid))"
    )
    await world.node.create(pod())
    await world.until_ended()
    pid = int((tmp_path / "child").read_text())
    await until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_a_log_that_cannot_be_written_is_said(start) -> None:
    world = await start("")
    logs = world.node._directory.path / "logs"
    logs.rmdir()
    with pytest.raises(
        LocalError, match=r"cannot start the process that logs to .*digits-worker-0-1\.log: No such file"
    ):
        await world.node.create(pod())
