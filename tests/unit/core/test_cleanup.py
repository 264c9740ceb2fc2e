"""What is left of a job that has ended: the table of `disttrain.core.policies.cleanup`."""

from __future__ import annotations

import pytest

from disttrain.core.model import Observed
from tests.unit.core.factory import (
    NOW,
    OTHER_UID,
    after,
    all_pods,
    children,
    deleted,
    exited,
    gang,
    later,
    planned,
    pod,
    running,
    status_of,
    stored,
    world,
)

DONE, FAILED = exited(0), exited(1)
WITH_EVALUATOR = {"roles": {"chief": 1, "worker": 1, "evaluator": 1}}

# chief ended, worker 0 runs, worker 1 is pending
POLICIES = {
    "Running": ("Running", ["worker-0", "worker-1"]),
    "All": ("All", ["chief-0", "worker-0", "worker-1"]),
    "None": ("None", []),
}


@pytest.mark.parametrize(("policy", "gone"), POLICIES.values(), ids=POLICIES.keys())
def test_policy_after_success(policy, gone):
    of = running(gang(cleanPodPolicy=policy))
    pods = all_pods(of, chief_0=pod("chief", exit=DONE), worker_1=pod("worker", 1, waiting_reason="ContainerCreating"))
    assert sorted(deleted(planned(of, world(*pods)))) == gone


@pytest.mark.parametrize(("policy", "gone"), POLICIES.values(), ids=POLICIES.keys())
def test_policy_after_failure(policy, gone):
    of = running(gang(cleanPodPolicy=policy, backoffLimit=0))
    pods = all_pods(
        of, chief_0=pod("chief", exit=FAILED), worker_1=pod("worker", 1, waiting_reason="ContainerCreating")
    )
    assert sorted(deleted(planned(of, world(*pods)))) == gone


def test_a_pod_whose_sidecar_still_runs_is_running():
    of = running(gang())
    pods = all_pods(of, chief_0=pod("chief", exit=DONE, sidecars_running=True))
    assert "chief-0" in deleted(planned(of, world(*pods)))


def test_a_pod_that_is_being_deleted_is_not_deleted_again():
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    going = world(pod("chief", exit=DONE), pod("worker", 0, deleting=True), pod("worker", 1, deleting=True))
    assert deleted(planned(done, going)) == []


def test_deletes_name_the_object_by_uid():
    of = running(gang())
    plan = planned(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    assert {delete.uid for delete in plan.deletes} == {"worker-0-of-1", "worker-1-of-1"}


# --- Service and NetworkPolicy ---


@pytest.mark.parametrize(
    ("left", "goes"),
    [
        ([pod("worker", 0)], False),
        ([pod("worker", 0, deleting=True)], False),
        ([pod("chief", exit=DONE, sidecars_running=True)], False),
        ([pod("chief", exit=DONE)], True),
        ([], True),
    ],
    ids=["a pod runs", "a pod is ending", "a sidecar runs", "only ended pods", "no pods"],
)
def test_service_and_policy_stay_until_no_pod_runs(left, goes):
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    plan = planned(done, world(*left))
    assert (deleted(plan, "Service") + deleted(plan, "NetworkPolicy") == ["recsys", "recsys"]) is goes


def test_a_successors_objects_are_not_touched():
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    theirs = Observed(pods=(pod("worker", 0, owner_uid=OTHER_UID),), children=children(OTHER_UID))
    assert planned(done, theirs).deletes == ()


# --- the evaluator ---


def succeeded(evaluator, now=NOW, **spec):
    of = running(gang(**WITH_EVALUATOR, **spec))
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    return planned(done, world(pod("chief", exit=DONE), pod("worker", 0, deleting=True), evaluator), now)


def test_an_evaluator_may_go_on_for_its_grace_period():
    plan = succeeded(pod("evaluator"), later(299))
    assert deleted(plan) == []
    assert plan.wake_at == later(300)


def test_an_evaluator_is_deleted_when_its_grace_period_is_over():
    assert deleted(succeeded(pod("evaluator"), later(300))) == ["evaluator-0"]


def test_the_grace_period_is_the_specs():
    policy = {"type": "Chief", "evaluatorGracePeriodSeconds": 0}
    assert deleted(succeeded(pod("evaluator"), successPolicy=policy)) == ["evaluator-0"]


def test_an_evaluator_that_ended_needs_no_grace():
    plan = succeeded(pod("evaluator", exit=DONE))
    assert (deleted(plan), plan.wake_at) == ([], None)


def test_all_deletes_an_evaluator_only_after_it_ended():
    assert deleted(succeeded(pod("evaluator"), cleanPodPolicy="All")) == ["chief-0"]
    assert sorted(deleted(succeeded(pod("evaluator", exit=DONE), cleanPodPolicy="All"))) == ["chief-0", "evaluator-0"]


def test_a_failed_job_has_nothing_left_to_evaluate():
    of = running(gang(**WITH_EVALUATOR, backoffLimit=0))
    plan = planned(of, world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED))))
    assert sorted(deleted(plan)) == ["chief-0", "evaluator-0"]


def test_nothing_is_made_for_a_finished_job():
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    assert planned(done, Observed()).creates == ()


# --- writes ---


def test_counts_on_the_way_out_are_written_once_when_the_last_pod_has_ended():
    of = running(gang())
    done = stored(of, status_of(planned(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))))
    chief = pod("chief", exit=DONE)
    assert planned(done, world(chief, pod("worker", 0, deleting=True), pod("worker", 1, deleting=True))).status is None
    assert planned(done, world(chief, pod("worker", 1, deleting=True))).status is None
    over = planned(done, world(chief))
    assert (status_of(over).role("worker").active, over.urgent) == (0, False)
