"""The operator is killed at any moment and started again: the end is the same as if it had never been away.

These tests have the one operator for themselves.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.emulator.jobs import condition, conditions, job, parameter_server
from tests.emulator.operator_process import OperatorProcess
from tests.emulator.space import Space, attempt, is_alive

SEVEN_PODS = [
    "digits-chief-0",
    *(f"digits-ps-{index}" for index in range(2)),
    *(f"digits-worker-{index}" for index in range(4)),
]


async def start(operator: OperatorProcess) -> None:
    await asyncio.to_thread(operator.start)


def made(space: Space) -> Counter[str]:
    """How often each pod was made."""
    return Counter(change.name for change in space.watch("Pod").history if change.type == "ADDED")


# --- while a job is made ---
CREATING: dict[str, Callable[[Space], bool]] = {
    "the job was submitted": lambda space: bool(space.job("digits")),
    "the first status is written": lambda space: bool(space.status("digits")),
    "the Service is there": lambda space: bool(space.watch("Service").objects),
    "the first pod is there": lambda space: bool(space.pods()),
    "all pods are there": lambda space: len(space.pods()) == 7,
    "the job runs": lambda space: space.status("digits").get("phase") == "Running",
}


@pytest.mark.parametrize("moment", CREATING)
async def test_killed_while_a_job_is_made(space: Space, operator: OperatorProcess, moment: str) -> None:
    await space.submit(parameter_server("digits", workers=4, ps=2))
    await space.until(lambda: CREATING[moment](space), moment)
    operator.kill()
    await start(operator)
    await space.running_pods(*SEVEN_PODS)
    status = (await space.phase("digits", "Running"))["status"]
    assert made(space) == Counter(SEVEN_PODS)
    assert (status["attempt"], status.get("restarts", 0), status.get("disruptions", 0)) == (1, 0, 0)


# --- while a gang restarts ---
RESTARTING: dict[str, Callable[[Space], bool]] = {
    "the failure is counted": lambda space: space.status("digits").get("restarts") == 1,
    "the first old pod goes": lambda space: not all(map(is_alive, space.pods().values())) or len(space.pods()) < 4,
    "the first new pod is there": lambda space: any(attempt(pod) == 2 for pod in space.pods().values()),
}


@pytest.mark.parametrize("moment", RESTARTING)
async def test_killed_while_a_gang_restarts(space: Space, operator: OperatorProcess, moment: str) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 4}}))
    await space.phase("digits", "Running")
    await space.end("digits-worker-2", 1)
    await space.until(lambda: RESTARTING[moment](space), moment)
    operator.kill()
    await start(operator)
    await space.has_condition("digits", "Restarting", "False")
    status = (await space.phase("digits", "Running"))["status"]
    assert set(made(space).values()) == {2}
    assert (status["attempt"], status["restarts"], status.get("disruptions", 0)) == (2, 1, 0)


# --- what happened while it was away ---
async def test_a_worker_that_failed_meanwhile_is_counted_once_and_replaced(
    space: Space, operator: OperatorProcess
) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-1"]
    operator.kill()
    await space.end("digits-worker-1", 1)
    await start(operator)
    await space.replaced("digits-worker-1", uid)
    status = (await space.phase("digits", "Running"))["status"]
    assert (status["restarts"], status.get("disruptions", 0)) == (1, 0)


async def test_a_worker_that_vanished_meanwhile_is_replaced_and_not_counted(
    space: Space, operator: OperatorProcess
) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-1"]
    operator.kill()
    await space.delete("digits-worker-1", "Pod")
    await space.until(lambda: "digits-worker-1" not in space.pods(), "the pod is gone")
    await start(operator)
    await space.replaced("digits-worker-1", uid)
    status = (await space.phase("digits", "Running"))["status"]
    assert (status.get("restarts", 0), status["disruptions"]) == (0, 1)


async def test_a_job_that_ended_meanwhile_has_succeeded_when_its_chief_ended(
    space: Space, operator: OperatorProcess
) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    operator.kill()
    await space.end("digits-chief-0", 0)
    await space.until(lambda: space.pods()["digits-chief-0"]["status"]["phase"] == "Succeeded", "the chief has ended")
    await start(operator)
    status = (await space.phase("digits", "Succeeded"))["status"]
    terminated = space.pods()["digits-chief-0"]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert status["completionTime"] == terminated["finishedAt"]


async def test_a_job_suspended_meanwhile_is_suspended(space: Space, operator: OperatorProcess) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    operator.kill()
    await space.patch("digits", {"suspend": True})
    await start(operator)
    await space.phase("digits", "Suspended")
    await space.until(lambda: not space.pods(), "no pod is left")


async def test_a_job_deleted_meanwhile_leaves_nothing_without_any_operator(
    space: Space, operator: OperatorProcess
) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    operator.kill()
    await space.delete("digits")
    await space.empty()


async def test_a_job_made_again_meanwhile_is_another_job(space: Space, operator: OperatorProcess) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    operator.kill()
    await space.delete("digits")
    new = (await space.submit(job("digits")))["metadata"]["uid"]
    await start(operator)
    await space.phase("digits", "Running")
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in space.pods().values()} == {new}


# --- at the end of a job ---
async def test_killed_before_the_clean_up_it_is_done_afterwards(space: Space, operator: OperatorProcess) -> None:
    await space.submit(parameter_server("digits", workers=4, ps=2))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.until(lambda: conditions(space.job("digits")).get("Succeeded") == "True", "the job has succeeded")
    operator.kill()
    verdict = condition(space.job("digits"), "Succeeded")
    await start(operator)
    await space.until(lambda: set(space.pods()) == {"digits-chief-0"}, "what still ran was stopped")
    await space.until(lambda: not space.watch("Service").objects, "the Service is gone")
    assert condition(space.job("digits"), "Succeeded") == verdict


# --- the process itself ---
async def test_it_ends_by_itself_when_told_to(space: Space, operator: OperatorProcess) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    operator.signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        while operator.running():  # noqa: ASYNC110  # it may be another process's child
            await asyncio.sleep(0.05)
    assert operator.lines()[-1]["message"] == "stopped"


async def test_running_jobs_are_left_alone_by_a_new_operator(space: Space, operator: OperatorProcess) -> None:
    await space.submit(parameter_server("digits"))
    await space.submit(job("other"))
    await space.phase("digits", "Running")
    await space.phase("other", "Running")
    before, versions = space.uids(), len(space.watch("DistTrainJob").history)
    operator.kill()
    await start(operator)
    await space.submit(job("third"))
    await space.phase("third", "Running")  # so it has looked at the others
    changed = {change.name for change in space.watch("DistTrainJob").history[versions:]}
    assert (changed, before.items() <= space.uids().items()) == ({"third"}, True)
