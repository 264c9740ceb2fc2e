"""When a job has succeeded, and what is left of it."""

from __future__ import annotations

import pytest

from tests.emulator.jobs import condition, container, job, mirrored, parameter_server, template
from tests.emulator.space import Space


async def test_a_job_goes_from_pending_over_running_to_succeeded(space: Space) -> None:
    await space.submit(job("digits", template=template(exit_code="0", run_for="1s")))
    await space.phase("digits", "Succeeded")
    seen = [version.get("status", {}).get("phase") for version in space.watch("DistTrainJob").versions("digits")]
    assert list(dict.fromkeys(seen)) == [None, "Pending", "Running", "Succeeded"]


async def test_the_chief_decides_under_parameter_server(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    ended = await space.phase("digits", "Succeeded")
    assert condition(ended, "Succeeded")["reason"] == "ChiefSucceeded"


async def test_the_chief_decides_under_multi_worker_mirrored(space: Space) -> None:
    await space.submit(job("digits", roles={"chief": {}, "worker": {"replicas": 2}}))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.phase("digits", "Succeeded")


async def test_worker_0_decides_where_there_is_no_chief(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0)
    await space.phase("digits", "Succeeded")


async def test_the_one_pod_decides_under_mirrored(space: Space) -> None:
    await space.submit(mirrored("digits"))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0)
    await space.phase("digits", "Succeeded")


async def test_a_worker_that_is_done_before_the_leader_does_not_decide_and_is_not_run_again(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-1"]
    await space.end("digits-worker-1", 0)
    await space.until(
        lambda: space.status("digits")["roles"]["worker"].get("completedIndexes") == "1", "worker 1 is completed"
    )
    assert (space.status("digits")["phase"], space.uids()["digits-worker-1"]) == ("Running", uid)


async def test_all_workers_waits_for_the_last(space: Space) -> None:
    roles = {"chief": {}, "worker": {"replicas": 2}}
    await space.submit(job("digits", roles=roles, successPolicy={"type": "AllWorkers"}))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.end("digits-worker-0", 0)
    await space.until(
        lambda: space.status("digits")["roles"]["worker"].get("completedIndexes") == "0", "worker 0 is completed"
    )
    assert space.status("digits")["phase"] == "Running"
    await space.end("digits-worker-1", 0)
    ended = await space.phase("digits", "Succeeded")
    assert condition(ended, "Succeeded")["reason"] == "AllWorkersSucceeded"


async def test_the_trainer_container_decides_while_a_sidecar_runs_on(space: Space) -> None:
    shared = template()
    shared["spec"]["containers"].append(container("logger"))
    await space.submit(mirrored("digits", template=shared))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0, container="trainer")
    await space.phase("digits", "Succeeded")


async def test_a_succeeded_job_says_when_it_started_and_ended(space: Space) -> None:
    await space.submit(mirrored("digits", template=template(exit_code="0")))
    status = (await space.phase("digits", "Succeeded"))["status"]
    assert status["startTime"] <= status["completionTime"]


# --- clean-up ---
async def test_what_still_runs_is_stopped_and_what_ended_keeps_its_logs(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.until(lambda: set(space.pods()) == {"digits-chief-0"}, "only the pod that ended is left")
    await space.until(
        lambda: not space.watch("Service").objects and not space.watch("NetworkPolicy").objects,
        "Service and NetworkPolicy are gone",
    )


async def test_clean_pod_policy_all_leaves_no_pod(space: Space) -> None:
    await space.submit(job("digits", cleanPodPolicy="All"))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0)
    await space.phase("digits", "Succeeded")
    await space.empty()


async def test_clean_pod_policy_none_stops_nothing(space: Space) -> None:
    await space.submit(job("digits", cleanPodPolicy="None"))
    await space.phase("digits", "Running")
    uids = space.uids()
    await space.end("digits-worker-0", 0)
    await space.phase("digits", "Succeeded")
    await space.end("digits-worker-1", 0)
    await space.until(lambda: not space.watch("Service").objects, "the Service goes when no pod runs")
    assert space.uids() == uids


# --- the evaluator ---
@pytest.mark.parametrize("code", [0, 1])
async def test_the_evaluators_end_never_decides(space: Space, code: int) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 1}, "evaluator": {}}))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-evaluator-0"]
    await space.end("digits-evaluator-0", code)
    if code:
        await space.replaced("digits-evaluator-0", uid)
    await space.end("digits-worker-0", 0)
    ended = await space.phase("digits", "Succeeded")
    assert ended["status"].get("restarts", 0) == 0


async def test_the_evaluator_may_finish_after_the_leader(space: Space) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 2}, "evaluator": {}}))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0)
    await space.until(
        lambda: set(space.pods()) == {"digits-worker-0", "digits-evaluator-0"}, "workers gone, the evaluator runs"
    )
    await space.end("digits-evaluator-0", 0)
    await space.until(lambda: not space.watch("Service").objects, "the Service goes when the evaluator is done")
    assert space.pods()["digits-evaluator-0"]["status"]["phase"] == "Succeeded"


async def test_the_evaluators_time_after_the_end_is_limited(space: Space) -> None:
    policy = {"type": "Chief", "evaluatorGracePeriodSeconds": 1}
    await space.submit(job("digits", roles={"worker": {"replicas": 1}, "evaluator": {}}, successPolicy=policy))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 0)
    await space.until(lambda: set(space.pods()) == {"digits-worker-0"}, "the evaluator was stopped")
