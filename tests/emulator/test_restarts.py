"""What a failure costs, and what it takes with it."""

from __future__ import annotations

import asyncio

import pytest

from tests.emulator.jobs import condition, conditions, job, mirrored, parameter_server, template
from tests.emulator.kube import Manifest
from tests.emulator.space import Space, attempt

WITH_CHIEF = {"chief": {}, "worker": {"replicas": 2}}


async def survivors(space: Space, fails: str, code: int = 1) -> set[str]:
    """Lets a pod of job `digits` fail, waits until it was replaced and the job runs; who is still the same pod?"""
    before = space.uids()
    await space.end(fails, code)
    await space.replaced(fails, before[fails])
    await space.has_condition("digits", "Restarting", "False")
    await space.phase("digits", "Running")
    after = space.uids()
    assert set(after) == set(before)
    return {name for name, uid in before.items() if after[name] == uid}


# --- scope ---
async def test_a_worker_of_a_parameter_server_job_is_replaced_alone(space: Space) -> None:
    await space.submit(parameter_server("digits", workers=2, ps=2))
    await space.phase("digits", "Running")
    same = await survivors(space, "digits-worker-1")
    assert same == {"digits-chief-0", "digits-worker-0", "digits-ps-0", "digits-ps-1"}


async def test_a_parameter_server_takes_the_chief_with_it(space: Space) -> None:
    await space.submit(parameter_server("digits", workers=2, ps=2))
    await space.phase("digits", "Running")
    same = await survivors(space, "digits-ps-1")
    assert same == {"digits-worker-0", "digits-worker-1", "digits-ps-0"}


async def test_the_chief_of_a_parameter_server_job_is_replaced_alone(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    same = await survivors(space, "digits-chief-0")
    assert same == {"digits-worker-0", "digits-worker-1", "digits-ps-0"}


@pytest.mark.parametrize("fails", ["digits-chief-0", "digits-worker-1"])
async def test_a_gang_restarts_whole(space: Space, fails: str) -> None:
    await space.submit(job("digits", roles=WITH_CHIEF))
    await space.phase("digits", "Running")
    assert await survivors(space, fails) == set()


async def test_a_gangs_evaluator_keeps_running(space: Space) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 2}, "evaluator": {}}))
    await space.phase("digits", "Running")
    assert await survivors(space, "digits-worker-0") == {"digits-evaluator-0"}


async def test_an_evaluator_is_replaced_alone(space: Space) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 2}, "evaluator": {}}))
    await space.phase("digits", "Running")
    before = space.uids()
    await space.end("digits-evaluator-0", 1)
    await space.replaced("digits-evaluator-0", before["digits-evaluator-0"])
    assert {name for name, uid in space.uids().items() if before[name] == uid} == {"digits-worker-0", "digits-worker-1"}


async def test_a_gang_never_mixes_two_attempts(space: Space) -> None:
    shared = template(stop_after="1s")
    await space.submit(job("digits", roles={"worker": {"replicas": 3}}, template=shared))
    await space.phase("digits", "Running")
    await survivors(space, "digits-worker-1")
    alive: dict[str, int] = {}
    for change in space.watch("Pod").history:
        alive.pop(change.object["metadata"]["uid"], None)
        if change.type != "DELETED":
            alive[change.object["metadata"]["uid"]] = attempt(change.object)
        assert len(set(alive.values())) <= 1, f"two attempts at once: {alive}"


# --- counting ---
async def test_a_failure_is_counted_once_and_told(space: Space) -> None:
    await space.submit(job("digits", roles=WITH_CHIEF))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-1"]
    await space.end("digits-worker-1", 137, reason="OOMKilled")
    await space.replaced("digits-worker-1", uid)
    status = (await space.phase("digits", "Running"))["status"]
    told = {key: status["lastFailure"].get(key) for key in ("attempt", "role", "index", "reason", "exitCode")}
    assert told == {"attempt": 1, "role": "worker", "index": 1, "reason": "OOMKilled", "exitCode": 137}
    assert (status["restarts"], status["attempt"], status["roles"]["worker"]["failed"]) == (1, 2, 1)


async def test_the_condition_restarting_turns_true_and_false_again(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    await survivors(space, "digits-worker-1")
    seen = [conditions(version).get("Restarting") for version in space.watch("DistTrainJob").versions("digits")]
    assert list(dict.fromkeys(seen)) == [None, "True", "False"]


async def test_members_of_a_gang_that_fail_together_are_one_failure(space: Space) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 4}}))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-0"]
    await asyncio.gather(*(space.end(f"digits-worker-{index}", 1) for index in range(4)))
    await space.replaced("digits-worker-0", uid)
    status = (await space.phase("digits", "Running"))["status"]
    assert (status["restarts"], status["attempt"]) == (1, 2)


@pytest.mark.parametrize("limit", [0, 1])
async def test_a_job_that_always_fails_ends_at_the_limit(space: Space, limit: int) -> None:
    await space.submit(job("digits", template=template(exit_code="1"), backoffLimit=limit))
    ended = await space.phase("digits", "Failed")
    assert condition(ended, "Failed")["reason"] == "BackoffLimitExceeded"
    assert "exit code 1" in condition(ended, "Failed")["message"]
    # As batch/v1 Job counts: one failure more than the limit, in one attempt more than the limit.
    assert (ended["status"]["restarts"], ended["status"]["attempt"]) == (limit + 1, limit + 1)


async def test_every_attempt_of_a_job_that_always_fails_makes_each_pod_once(space: Space) -> None:
    await space.submit(job("digits", template=template(exit_code="1"), backoffLimit=1))
    await space.phase("digits", "Failed")
    made = [change.name for change in space.watch("Pod").history if change.type == "ADDED"]
    assert sorted(made) == ["digits-worker-0"] * 2 + ["digits-worker-1"] * 2


async def test_what_runs_of_a_failed_job_is_stopped(space: Space) -> None:
    await space.submit(job("digits", backoffLimit=0, roles={"worker": {"replicas": 2}, "evaluator": {}}))
    await space.phase("digits", "Running")
    await space.end("digits-worker-1", 1)
    await space.phase("digits", "Failed")
    await space.until(lambda: set(space.pods()) == {"digits-worker-1"}, "only the pod that failed is left")


async def test_a_usage_error_fails_the_job_at_once(space: Space) -> None:
    await space.submit(mirrored("digits", template=template(exit_code="64", message="no such file: train.py")))
    ended = await space.phase("digits", "Failed")
    assert (condition(ended, "Failed")["reason"], ended["status"].get("restarts", 0)) == ("UsageError", 0)
    assert "no such file: train.py" in condition(ended, "Failed")["message"]


# --- disruptions: restarted, not counted ---
def counts(manifest: Manifest) -> tuple[int, int]:
    """(restarts, disruptions)"""
    return manifest["status"].get("restarts", 0), manifest["status"].get("disruptions", 0)


async def test_a_pod_that_somebody_deletes_is_replaced_and_not_counted(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-0"]
    await space.delete("digits-worker-0", "Pod")
    await space.replaced("digits-worker-0", uid)
    assert counts(await space.phase("digits", "Running")) == (0, 1)


async def test_an_eviction_is_not_counted(space: Space) -> None:
    await space.submit(mirrored("digits", backoffLimit=0))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-0"]
    await space.evict("digits-worker-0")
    await space.replaced("digits-worker-0", uid)
    assert counts(await space.phase("digits", "Running")) == (0, 1)


async def test_a_process_that_saved_when_told_to_stop_is_not_counted(space: Space) -> None:
    await space.submit(mirrored("digits", backoffLimit=0))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-0"]
    await space.end("digits-worker-0", 42)
    await space.replaced("digits-worker-0", uid)
    assert counts(await space.phase("digits", "Running")) == (0, 1)


# --- resize ---
@pytest.mark.parametrize("replicas", [1, 3])
async def test_scaling_restarts_the_job_at_the_new_size_and_is_not_counted(space: Space, replicas: int) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    scaled = space.installation.kubectl("scale", "-n", space.name, "dtj/digits", f"--replicas={replicas}")
    assert scaled.returncode == 0, scaled.stderr
    await space.running_pods(*(f"digits-worker-{index}" for index in range(replicas)))
    await space.until(
        lambda: all(attempt(pod) == 2 for pod in space.pods().values()) and space.status("digits")["attempt"] == 2,
        "every pod is of the second attempt",
    )
    assert counts(await space.phase("digits", "Running")) == (0, 0)
