"""Suspending and resuming: the table of `disttrain.core.policies.suspend`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disttrain import names
from disttrain.core.model import Observed
from tests.unit.core.factory import (
    after,
    all_pods,
    created,
    deleted,
    exited,
    gang,
    later,
    parameter_server,
    planned,
    pod,
    reason,
    respecified,
    running,
    status_of,
    stored,
    world,
)

ROLES = {"roles": {"chief": 1, "worker": 2}}
FAILED = exited(1)


def suspended(of, **changes):
    spec = {"roles": {role: of.spec.replicas(role) for role in of.spec.roles_in_use()}, "suspend": True}
    return respecified(of, **{**spec, **changes})


def resumed(of):
    return replace(of, spec=of.spec.model_copy(update={"suspend": False}), generation=of.generation + 1)


def test_suspending_deletes_every_pod_and_says_so():
    of = suspended(running(gang()))
    plan = planned(of, world(*all_pods(of)))
    status = status_of(plan)
    assert sorted(deleted(plan)) == ["chief-0", "worker-0", "worker-1"]
    assert (status.phase, reason(status, names.SUSPENDED)) == (names.SUSPENDED, names.REASON_SUSPENDED)
    assert not status.is_true(names.RUNNING)


def test_suspending_keeps_service_and_policy():
    of = suspended(running(gang()))
    plan = planned(of, world(*all_pods(of)))
    assert deleted(plan, "Service") + deleted(plan, "NetworkPolicy") == []


def test_what_is_left_of_the_pods_is_deleted_after_a_crash():
    of = after(suspended(running(gang())), world(*all_pods(gang())))
    plan = planned(of, world(pod("chief", deleting=True), pod("worker", 1)))
    assert (deleted(plan), plan.status) == (["worker-1"], None)


@pytest.mark.parametrize("of", [gang(), parameter_server()], ids=["gang", "ParameterServer"])
def test_nothing_is_counted_while_suspending(of):
    of = suspended(running(of))
    failing = world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED), worker_1=pod("worker", 1, deleting=True)))
    status = after(of, failing).status
    dying = after(
        after(of, failing), world(*(pod(p.role, p.index, exit=exited(143), deleting=True) for p in all_pods(of)))
    )
    assert (status.restarts, status.disruptions, status.attempt) == (0, 0, 1)
    assert (dying.status.restarts, dying.status.disruptions) == (0, 0)


def test_a_suspended_job_without_pods_is_quiet():
    of = after(suspended(running(gang())), world(*all_pods(gang())))
    empty = after(of, world())
    assert planned(empty, world()).status is None
    assert planned(empty, world()).creates == ()


def test_resuming_waits_until_every_old_pod_is_gone():
    of = resumed(after(suspended(running(gang())), world(*all_pods(gang()))))
    plan = planned(of, world(pod("worker", 1, deleting=True)))
    assert created(plan) == []
    assert after(of, world(pod("worker", 1, deleting=True))).status.is_true(names.SUSPENDED)


def test_resuming_begins_the_next_attempt():
    of = resumed(after(suspended(running(gang())), world(*all_pods(gang()))))
    plan = planned(of, world(), later(600))
    status = status_of(plan)
    assert sorted(created(plan)) == ["chief-0", "worker-0", "worker-1"]
    assert (status.attempt, status.restarts, status.start_time) == (2, 0, later(600))
    assert status.condition(names.SUSPENDED).reason == names.REASON_RESUMED
    assert status.phase == names.PHASE_PENDING


def test_resuming_takes_the_size_that_was_set_meanwhile():
    of = after(suspended(running(gang())), world(*all_pods(gang())))
    grown = respecified(after(of, world()), roles={"chief": 1, "worker": 4})
    plan = planned(grown, world())
    assert len(created(plan)) == 5
    assert status_of(plan).role("worker").desired == 4


def test_resuming_keeps_the_images_of_the_first_start():
    of = resumed(after(suspended(running(gang())), world(*all_pods(gang()))))
    of = stored(of, of.status.model_copy(update={"images": of.status.images.model_copy(update={"trainer": "old:1"})}))
    assert status_of(planned(of, world())).images.trainer == "old:1"


def test_a_job_that_is_created_suspended_makes_nothing():
    plan = planned(gang(suspend=True), Observed())
    status = status_of(plan)
    assert plan.creates == ()
    assert (status.phase, status.attempt, status.start_time) == (names.SUSPENDED, 0, None)


def test_a_job_that_was_created_suspended_starts_with_attempt_1():
    of = resumed(after(gang(suspend=True), Observed()))
    plan = planned(of, Observed())
    assert (status_of(plan).attempt, len(created(plan))) == (1, 3)
    assert [item["kind"] for item in plan.creates][:2] == ["Service", "NetworkPolicy"]


def test_a_suspension_that_was_taken_back_unseen_does_nothing():
    of = resumed(suspended(running(gang())))
    plan = planned(of, world(*all_pods(of)))
    assert (plan.deletes, plan.creates) == ((), ())


@pytest.mark.parametrize(("of", "kept"), [(gang(), None), (parameter_server(), "1")], ids=["gang", "ParameterServer"])
def test_a_gang_forgets_completions_a_parameter_server_job_does_not(of, kept):
    of = running(of)
    done = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(0)))))
    status = after(suspended(done), world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(0))))).status
    assert status.role("worker").completed_indexes == kept


def test_suspension_goes_before_success():
    of = suspended(running(gang()))
    status = after(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(0))))).status
    assert status.phase == names.SUSPENDED


def test_a_finished_job_is_not_suspended():
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(0)))))
    assert after(suspended(done), world()).status.phase == names.SUCCEEDED


def test_suspending_ends_a_restart():
    of = running(gang())
    restarting = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    status = after(suspended(restarting), world(*all_pods(of))).status
    assert not status.is_true(names.RESTARTING)
