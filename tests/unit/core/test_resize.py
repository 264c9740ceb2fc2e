"""What a change of size does to a running job: the table of `disttrain.core.policies.resize`."""

from __future__ import annotations

import pytest

from disttrain import names
from tests.unit.core.factory import (
    after,
    all_pods,
    created,
    deleted,
    exited,
    gang,
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

FAILED = exited(1)


@pytest.mark.parametrize("workers", [1, 5], ids=["fewer", "more"])
def test_a_gang_restarts_as_a_whole_at_the_new_size(workers):
    old = running(gang())
    of = respecified(old, roles={"chief": 1, "worker": workers})
    plan = planned(of, world(*all_pods(old)))
    status = status_of(plan)
    assert sorted(deleted(plan)) == ["chief-0", "worker-0", "worker-1"]
    assert created(plan) == []
    assert (status.attempt, status.restarts, status.disruptions) == (2, 0, 0)
    assert reason(status, names.RESTARTING) == names.REASON_RESIZED
    assert len(created(planned(stored(of, status), world()))) == workers + 1


@pytest.mark.parametrize(
    "sizes", [{"worker": 3, "ps": 2}, {"worker": 2, "ps": 1}], ids=["workers", "parameter servers"]
)
def test_a_parameter_server_job_restarts_as_a_whole_too(sizes):
    old = running(parameter_server())
    of = respecified(old, roles={"chief": 1, **sizes})
    plan = planned(of, world(*all_pods(old)))
    assert sorted(deleted(plan)) == ["chief-0", "ps-0", "ps-1", "worker-0", "worker-1"]
    assert len(status_of(plan).accounted_pods) == 5
    assert len(created(planned(stored(of, plan.status), world()))) == 1 + sizes["worker"] + sizes["ps"]


def test_an_evaluator_goes_on():
    old = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    of = respecified(old, roles={"chief": 1, "worker": 2, "evaluator": 1})
    assert "evaluator-0" not in deleted(planned(of, world(*all_pods(old))))


def test_a_size_that_was_set_back_unseen_does_nothing():
    old = running(gang())
    of = respecified(old, roles={"chief": 1, "worker": 2})
    plan = planned(of, world(*all_pods(of)))
    assert (plan.deletes, plan.creates) == ((), ())
    assert (status_of(plan).attempt, status_of(plan).observed_generation) == (1, of.generation)


def test_a_gang_that_fails_takes_the_new_size_over_in_the_same_restart():
    old = running(gang())
    of = respecified(old, roles={"chief": 1, "worker": 3})
    first = after(of, world(*all_pods(old, worker_1=pod("worker", 1, exit=FAILED))))
    assert (first.status.restarts, first.status.attempt, first.status.role("worker").desired) == (1, 2, 3)
    assert after(first, world()).status.attempt == 2


def test_a_parameter_server_job_that_fails_is_counted_and_then_resized():
    old = running(parameter_server())
    of = respecified(old, roles={"chief": 1, "worker": 3, "ps": 2})
    lost = world(*all_pods(old, worker_1=pod("worker", 1, exit=FAILED)))
    first = after(of, lost)
    assert (first.status.restarts, first.status.attempt, first.status.role("worker").desired) == (1, 2, 2)
    second = after(first, lost)
    assert (second.status.restarts, second.status.attempt, second.status.role("worker").desired) == (1, 3, 3)


def test_fewer_workers_are_not_lost_workers():
    old = running(gang())
    of = respecified(old, roles={"chief": 1, "worker": 1})
    assert after(of, world(*all_pods(old))).status.disruptions == 0


def test_a_gang_forgets_completions():
    old = running(gang())
    done = after(old, world(*all_pods(old, worker_1=pod("worker", 1, exit=exited(0)))))
    of = respecified(done, roles={"chief": 1, "worker": 3})
    assert after(of, world(*all_pods(old))).status.role("worker").completed_indexes is None
