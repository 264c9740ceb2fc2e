"""What is made and what is waited for: the table of `disttrain.core.creation`."""

from __future__ import annotations

import pytest

from disttrain import names
from disttrain.core.model import Child, Observed
from tests.unit.core.factory import (
    OTHER_UID,
    UID,
    after,
    all_pods,
    children,
    created,
    deleted,
    exited,
    gang,
    later,
    mirrored,
    planned,
    pod,
    reason,
    running,
    stored,
    world,
)


def ready_reason(plan_status):
    condition = plan_status.condition(names.PODS_READY)
    return condition.reason


def begun(of):
    """The job after its first status write, before anything was made."""
    return after(of, Observed())


# --- what is missing ---


def test_creates_that_a_crash_broke_off_are_finished():
    of = begun(gang())
    assert created(planned(of, world(pod("worker", 0)))) == ["chief-0", "worker-1"]


def test_a_deleted_service_comes_back():
    of = running(gang())
    policy_only = tuple(child for child in children() if child.kind == "NetworkPolicy")
    plan = planned(of, world(*all_pods(of), children=policy_only))
    assert (created(plan, "Service"), created(plan)) == (["recsys"], [])


def test_what_has_completed_is_never_run_again():
    of = running(gang())
    done = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(0)))))
    assert created(planned(done, world(*all_pods(of)[:2]))) == []


def test_an_evaluator_that_vanished_comes_back_uncounted():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    gone = world(*all_pods(of)[:2])
    assert created(planned(of, gone)) == ["evaluator-0"]
    assert after(of, gone).status.disruptions == 0


# --- names in the way ---


@pytest.mark.parametrize(
    "observed",
    [
        Observed(pods=(pod("worker", 0, owner_uid=OTHER_UID, deleting=True),)),
        Observed(children=children(OTHER_UID)),
    ],
    ids=["a pod", "the Service"],
)
def test_a_predecessors_objects_are_waited_for_and_not_touched(observed):
    of = begun(gang())
    plan = planned(of, observed)
    assert plan.deletes == ()
    assert ready_reason(after(of, observed).status) == names.REASON_WAITING_FOR_PREDECESSOR


def test_no_pod_is_made_beside_a_predecessors_service():
    assert created(planned(begun(gang()), Observed(children=children(OTHER_UID)))) == []


def test_a_predecessors_pod_keeps_only_its_own_name():
    plan = planned(begun(gang()), world(pod("worker", 0, owner_uid=OTHER_UID)))
    assert created(plan) == ["chief-0", "worker-1"]


def test_a_predecessors_failed_pod_is_not_our_failure():
    of = running(gang())
    theirs = pod("worker", 1, owner_uid=OTHER_UID, exit=exited(1))
    assert after(of, world(*all_pods(of)[:2], theirs)).status.restarts == 0


@pytest.mark.parametrize(
    "observed",
    [
        world(foreign=frozenset({("Pod", "recsys-worker-0")})),
        Observed(foreign=frozenset({("Service", "recsys")})),
        world(pod("worker", 0, owner_uid="")),
    ],
    ids=["a foreign pod", "a foreign Service", "an orphan"],
)
def test_a_foreign_object_is_named_and_nothing_is_made_beside_it(observed):
    of = begun(gang())
    plan = planned(of, observed)
    assert (created(plan), plan.deletes) == ([], ())
    assert ready_reason(after(of, observed).status) == names.REASON_NAME_IN_USE
    assert plan.wake_at == later(names.RETRY_SECONDS)
    assert [event.reason for event in plan.events] == [names.REASON_NAME_IN_USE]


def test_a_foreign_evaluator_does_not_stop_training():
    of = begun(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    observed = world(foreign=frozenset({("Pod", "recsys-evaluator-0")}))
    assert created(planned(of, observed)) == ["chief-0", "worker-0"]


# --- refusals ---

REFUSED = {("Pod", "recsys-worker-1"): 'exceeded quota: gpus, requested: "1", used: "8", limited: "8"'}


def test_a_refusal_is_said_in_the_api_servers_words_and_tried_again():
    of = begun(gang())
    observed = world(pod("chief"), pod("worker", 0), refused=REFUSED)
    plan = planned(of, observed)
    condition = after(of, observed).status.condition(names.PODS_READY)
    assert condition.reason == names.REASON_CREATE_REFUSED
    assert "exceeded quota: gpus" in condition.message
    assert (created(plan), plan.wake_at) == (["worker-1"], later(names.RETRY_SECONDS))


def test_a_refusal_is_told_once():
    of = begun(gang())
    observed = world(pod("chief"), pod("worker", 0), refused=REFUSED)
    assert [event.reason for event in planned(of, observed).events] == [names.REASON_CREATE_REFUSED]
    assert planned(after(of, observed), observed).events == ()


def test_a_refusal_of_something_not_wanted_any_more_does_not_matter():
    of = running(mirrored())
    assert planned(of, world(pod("worker", 0), refused=REFUSED)).status is None


def test_a_refused_evaluator_does_not_make_the_job_unready():
    of = begun(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    observed = world(pod("chief"), pod("worker"), refused={("Pod", "recsys-evaluator-0"): "no"})
    status = after(of, observed).status
    assert reason(status, names.RUNNING) == names.REASON_RUNNING
    assert "evaluator-0 CreateRefused: no" in status.condition(names.PODS_READY).message


# --- the network policy's coming and going ---


def test_a_policy_that_is_not_wanted_is_deleted():
    of = running(gang(network={"policy": "None"}))
    assert deleted(planned(of, world(*all_pods(of))), "NetworkPolicy") == ["recsys"]


def test_a_service_that_is_being_deleted_is_waited_for():
    of = running(gang())
    going = tuple(
        Child(child.kind, child.name, child.uid, UID, deleting=child.kind == "Service") for child in children()
    )
    assert planned(stored(of, of.status), world(*all_pods(of), children=going)).creates == ()
