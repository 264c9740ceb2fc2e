"""What the status says of the world: the table of `disttrain.core.status`, counts, and what is worth a write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disttrain import names
from disttrain.core import status as core_status
from disttrain.core.model import Observed
from disttrain.core.view import View
from tests.unit.core.factory import (
    NOW,
    SETTINGS,
    after,
    all_pods,
    exited,
    gang,
    later,
    mirrored,
    parameter_server,
    planned,
    pod,
    running,
    status_of,
    stored,
    world,
)


def begun(of):
    return after(of, Observed())


# --- counts ---


def test_pods_are_counted_by_role():
    of = begun(parameter_server())
    pods = [
        pod("chief"),
        pod("worker", 0, waiting_reason="ContainerCreating"),
        pod("worker", 1, exit=exited(0)),
        pod("ps", 0),
    ]
    roles = after(of, world(*pods)).status.roles
    counts = {role: (part.desired, part.active, part.ready, part.succeeded) for role, part in roles.items()}
    assert counts == {"chief": (1, 1, 1, 0), "worker": (2, 1, 0, 1), "ps": (2, 1, 1, 0)}
    assert roles["worker"].completed_indexes == "1"


def test_pods_that_are_accounted_for_are_terminating_and_not_active():
    of = running(gang())
    lost = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(1)))))
    going = after(lost, world(pod("chief", deleting=True), pod("worker", 0, deleting=True)))
    part = going.status.role("worker")
    assert (part.active, part.ready, part.terminating, part.failed) == (0, 0, 1, 1)


def test_a_roles_selector_selects_its_pods():
    selector = begun(gang()).status.role("worker").selector
    assert selector == "disttrain.dev/job-name=recsys,disttrain.dev/role=worker"


@pytest.mark.parametrize(
    ("pods", "column"),
    [
        ([], "0/3"),
        ([pod("chief"), pod("worker", 0, waiting_reason="Unschedulable")], "1/3"),
        ([pod("chief"), pod("worker", 0), pod("worker", 1)], "3/3"),
    ],
    ids=["none", "one", "all"],
)
def test_the_ready_column(pods, column):
    assert after(begun(gang()), world(*pods)).status.ready == column


def test_the_ready_column_is_without_the_evaluator():
    of = gang(roles={"chief": 1, "worker": 1, "evaluator": 1})
    assert running(of).status.ready == "2/2"


# --- PodsReady ---

CULPRITS = {
    "not made": (
        [],
        "0 of 3 pods are ready; chief-0 is not made yet; worker-0 is not made yet; worker-1 is not made yet",
    ),
    "the notable one first": (
        [
            pod("chief", waiting_reason="ContainerCreating"),
            pod("worker", 0),
            pod("worker", 1, waiting_reason="ImagePullBackOff", waiting_message="pull of r/x:7 failed"),
        ],
        "1 of 3 pods are ready; worker-1 ImagePullBackOff: pull of r/x:7 failed; chief-0 ContainerCreating",
    ),
    "runs without being ready": (
        [pod("chief", ready=False), pod("worker", 0), pod("worker", 1)],
        "2 of 3 pods are ready; chief-0 runs but is not ready",
    ),
    "all": ([pod("chief"), pod("worker", 0), pod("worker", 1)], "all 3 pods are ready"),
}


@pytest.mark.parametrize(("pods", "message"), CULPRITS.values(), ids=CULPRITS.keys())
def test_pods_ready_names_the_culprits(pods, message):
    condition = after(begun(gang()), world(*pods)).status.condition(names.PODS_READY)
    assert condition.message == message


def test_only_the_first_culprits_are_named():
    of = begun(gang(roles={"worker": 9}))
    message = of.status.condition(names.PODS_READY).message
    assert message.count("is not made yet") == 3
    assert message.endswith("and 6 more")


def test_a_pod_that_will_not_end_is_named():
    of = running(gang())
    lost = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(1)))))
    stuck = after(lost, world(pod("worker", 0, deleting=True)))
    message = stuck.status.condition(names.PODS_READY).message
    assert "worker-0 pod of attempt 1 is still ending" in message


def test_a_message_never_exceeds_its_bound():
    of = begun(gang())
    observed = world(pod("chief", waiting_reason="Unschedulable", waiting_message="x" * 5000))
    assert len(after(of, observed).status.condition(names.PODS_READY).message) <= names.MAX_MESSAGE_LENGTH


# --- Running and the phase ---


def test_completed_replicas_count_as_ready():
    of = begun(gang())
    status = after(of, world(pod("chief"), pod("worker", 0), pod("worker", 1, exit=exited(0)))).status
    assert status.is_true(names.RUNNING)


def test_a_readiness_probe_that_fails_for_a_moment_does_not_end_running():
    of = running(gang())
    status = after(of, world(*all_pods(of, worker_0=pod("worker", 0, ready=False)))).status
    assert (status.is_true(names.PODS_READY), status.is_true(names.RUNNING), status.phase) == (
        False,
        True,
        names.RUNNING,
    )


def test_a_job_without_its_evaluator_runs():
    of = begun(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    status = after(of, world(pod("chief"), pod("worker"), pod("evaluator", waiting_reason="Unschedulable"))).status
    assert status.is_true(names.RUNNING)
    assert "evaluator-0 Unschedulable" in status.condition(names.PODS_READY).message


def test_a_new_job_is_pending():
    assert begun(gang()).status.phase == names.PHASE_PENDING


def test_conditions_that_never_applied_are_absent():
    assert {condition.type for condition in running(gang()).status.conditions} == {names.PODS_READY, names.RUNNING}


def test_running_is_told_once():
    of = begun(gang())
    first = planned(of, world(*all_pods(of)))
    assert [event.reason for event in first.events] == [names.REASON_RUNNING]
    assert planned(stored(of, first.status), world(*all_pods(of))).events == ()


# --- transition times and generations ---


def test_a_transition_time_moves_only_when_the_status_flips():
    of = begun(gang())
    first = of.status.condition(names.PODS_READY)
    same = after(of, world(pod("chief")), later(60)).status.condition(names.PODS_READY)
    flipped = after(of, world(*all_pods(of)), later(60)).status.condition(names.PODS_READY)
    assert (same.last_transition_time, same.message != first.message) == (NOW, True)
    assert flipped.last_transition_time == later(60)


def test_every_condition_is_said_of_the_generation_that_was_acted_on():
    of = replace(running(gang()), generation=7)
    status = after(of, world(*all_pods(of))).status
    assert status.observed_generation == 7
    assert {condition.observed_generation for condition in status.conditions} == {7}


# --- what is written, and how soon ---


@pytest.mark.parametrize("of", [mirrored(), gang(), parameter_server()], ids=["Mirrored", "gang", "ParameterServer"])
def test_an_unchanged_world_needs_nothing(of):
    of = running(of)
    plan = planned(of, world(*all_pods(of)), later(3600))
    assert (plan.status, plan.deletes, plan.creates, plan.events, plan.wake_at) == (None, (), (), (), None)


def test_the_order_in_which_pods_are_seen_does_not_matter():
    of = running(parameter_server())
    assert planned(of, world(*reversed(all_pods(of)))).status is None


URGENT = {
    "a count": (world(pod("chief"), pod("worker", 0, waiting_reason="Pending")), False),
    "everybody is ready": (world(pod("chief"), pod("worker", 0), pod("worker", 1)), True),
    "a failure": (world(pod("chief", exit=exited(1))), True),
    "a completion": (world(pod("worker", 0, exit=exited(0))), True),
    "an obstacle": (world(foreign=frozenset({("Pod", "recsys-chief-0")})), True),
}


@pytest.mark.parametrize(("observed", "urgent"), URGENT.values(), ids=URGENT.keys())
def test_decisions_are_urgent_and_counters_are_not(observed, urgent):
    assert planned(begun(gang()), observed).urgent is urgent


def test_newly_accounted_pods_are_urgent():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    assert planned(of, world(*all_pods(of, evaluator_0=pod("evaluator", deleting=True)))).urgent


def test_accounted_pods_that_are_gone_are_no_reason_to_write():
    of = running(gang())
    before = of.status.model_copy(update={"accounted_pods": ("gone",)})
    view = View(stored(of, before), world(*all_pods(of)), NOW, SETTINGS)
    assert not core_status.is_worth_writing(view, before, of.status)


def test_a_status_survives_the_way_through_json():
    of = running(gang())
    plan = planned(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(1)))), later(0.75))
    assert stored(of, status_of(plan)).status == plan.status
