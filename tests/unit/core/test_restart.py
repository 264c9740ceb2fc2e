"""What a failure costs and what it takes with it: the tables of `disttrain.core.policies.restart`."""

from __future__ import annotations

import pytest

from disttrain import names
from disttrain.core.model import Observed
from disttrain_agent import contract
from tests.unit.core.factory import (
    NOW,
    after,
    all_pods,
    created,
    deleted,
    exited,
    gang,
    job,
    later,
    mirrored,
    parameter_server,
    planned,
    pod,
    reason,
    running,
    status_of,
    stored,
    world,
)

FAILED = exited(1)
GANG = ["chief-0", "worker-0", "worker-1"]


# --- what is lost and how it counts ---

COUNTED, FREE = (1, 0), (0, 1)
LOSSES = {
    "exit 1": ({"exit": exited(1)}, COUNTED, names.REASON_POD_EXITED),
    "a signal": ({"exit": exited(139)}, COUNTED, names.REASON_POD_EXITED),
    "out of memory": ({"exit": exited(137, "OOMKilled")}, COUNTED, "OOMKilled"),
    "peers missing": ({"exit": exited(contract.EXIT_PEERS_MISSING)}, COUNTED, names.REASON_PEERS_MISSING),
    "an init container": (
        {"exit": exited(-1, names.REASON_INIT_CONTAINER_FAILED)},
        COUNTED,
        names.REASON_INIT_CONTAINER_FAILED,
    ),
    "saved on SIGTERM": ({"exit": exited(contract.EXIT_SAVED)}, FREE, names.REASON_SAVED_ON_SIGNAL),
    "evicted": ({"exit": exited(137), "disruption": "Evicted"}, FREE, "Evicted"),
    "preempted while it runs": (
        {"deleting": True, "disruption": "PreemptionByScheduler"},
        FREE,
        "PreemptionByScheduler",
    ),
    "node lost": ({"exit": exited(-1), "disruption": "NodeLost"}, FREE, "NodeLost"),
    "deleted by somebody": ({"deleting": True}, FREE, names.REASON_POD_DELETED),
    "exit 0 when told to go": (
        {"exit": exited(0), "deleting": True, "disruption": names.REASON_POD_DELETED},
        FREE,
        names.REASON_POD_DELETED,
    ),
}


@pytest.mark.parametrize(("facts", "counts", "why"), LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("of", [gang(), parameter_server()], ids=["gang", "ParameterServer"])
def test_a_loss_is_counted_or_free(of, facts, counts, why):
    of = running(of)
    status = status_of(planned(of, world(*all_pods(of, worker_1=pod("worker", 1, **facts)))))
    assert (status.restarts, status.disruptions) == counts
    assert (status.last_failure.role, status.last_failure.index, status.last_failure.reason) == ("worker", 1, why)
    assert status.attempt == 2


@pytest.mark.parametrize("of", [gang(), parameter_server()], ids=["gang", "ParameterServer"])
def test_a_pod_that_is_gone_without_our_doing_is_free(of):
    of = running(of)
    pods = [p for p in all_pods(of) if (p.role, p.index) != ("worker", 0)]
    status = status_of(planned(of, world(*pods)))
    failure = status.last_failure
    assert (status.restarts, status.disruptions, status.attempt) == (0, 1, 2)
    assert (failure.role, failure.index, failure.reason, failure.exit_code) == (
        "worker",
        0,
        names.REASON_POD_DELETED,
        None,
    )


def test_a_completed_replica_whose_pod_is_gone_is_not_lost():
    of = running(gang())
    done = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(0)))))
    gone = planned(done, world(*all_pods(of)[:2]))
    assert (gone.creates, gone.deletes) == ((), ())
    assert after(done, world(*all_pods(of)[:2])).status.disruptions == 0


def test_a_pod_that_is_only_announced_to_be_disrupted_is_not_lost_yet():
    of = running(gang())
    announced = world(*all_pods(of, worker_1=pod("worker", 1, disruption="PreemptionByScheduler")))
    assert planned(of, announced).status is None


@pytest.mark.parametrize("of", [mirrored(), gang(), parameter_server()], ids=["Mirrored", "gang", "ParameterServer"])
def test_exit_64_fails_the_job_at_once(of):
    of = running(of)
    wrong = exited(contract.EXIT_USAGE, message="train.py: no such file")
    status = status_of(planned(of, world(*all_pods(of, worker_0=pod("worker", 0, exit=wrong)))))
    assert (reason(status, names.FAILED), status.restarts) == (names.REASON_USAGE_ERROR, 0)
    assert "train.py: no such file" in status.condition(names.FAILED).message


# --- whom it takes with it ---

SCOPES = {
    "Mirrored: the worker": (mirrored(), "worker-0", ["worker-0"]),
    "gang: everybody, for a worker": (gang(), "worker-1", GANG),
    "gang: everybody, for the chief": (gang(), "chief-0", GANG),
    "ParameterServer: a worker alone": (parameter_server(), "worker-1", ["worker-1"]),
    "ParameterServer: a ps with the chief": (parameter_server(), "ps-1", ["chief-0", "ps-1"]),
    "ParameterServer: the chief alone": (parameter_server(), "chief-0", ["chief-0"]),
    "the evaluator alone": (gang(roles={"chief": 1, "worker": 1, "evaluator": 1}), "evaluator-0", ["evaluator-0"]),
}


@pytest.mark.parametrize(("of", "lost", "restarted"), SCOPES.values(), ids=SCOPES.keys())
def test_a_scope_is_deleted_and_then_made_anew(of, lost, restarted):
    role, index = lost.rsplit("-", 1)
    of = running(of)
    pods = all_pods(of, **{f"{role}_{index}": pod(role, int(index), exit=FAILED)})
    first = planned(of, world(*pods))
    assert sorted(deleted(first)) == restarted
    assert created(first) == []
    rest = [p for p in pods if f"{p.role}-{p.index}" not in restarted]
    second = planned(stored(of, first.status), world(*rest))
    assert sorted(created(second)) == restarted
    attempts = {item["metadata"]["labels"][names.LABEL_ATTEMPT] for item in second.creates}
    assert attempts == {str(first.status.attempt)}


def test_a_gang_restarts_its_completed_members_too():
    of = running(gang())
    done = after(of, world(*all_pods(of, worker_0=pod("worker", 0, exit=exited(0)))))
    lost = planned(
        done, world(*all_pods(of, worker_0=pod("worker", 0, exit=exited(0)), worker_1=pod("worker", 1, exit=FAILED)))
    )
    assert sorted(deleted(lost)) == GANG
    assert status_of(lost).role("worker").completed_indexes is None
    assert sorted(created(planned(stored(done, lost.status), world()))) == GANG


def test_a_new_gang_waits_until_every_old_pod_is_gone():
    of = running(gang())
    lost = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    assert created(planned(lost, world(pod("chief", deleting=True)))) == []


def test_a_new_chief_waits_for_the_old_parameter_server():
    of = running(parameter_server())
    lost = after(of, world(*all_pods(of, ps_0=pod("ps", 0, exit=FAILED))))
    left = [pod("worker", 0), pod("worker", 1), pod("ps", 1), pod("ps", 0, exit=FAILED, deleting=True)]
    assert created(planned(lost, world(*left))) == []


def test_a_worker_does_not_wait_for_a_parameter_server_that_restarts():
    of = running(parameter_server())
    ps_lost = all_pods(of, ps_0=pod("ps", 0, exit=FAILED))
    first = after(of, world(*ps_lost))
    worker_lost = [pod("chief", deleting=True), pod("worker", 0, exit=FAILED), pod("worker", 1), *ps_lost[3:]]
    second = planned(first, world(*worker_lost))
    assert (second.status.restarts, second.status.attempt) == (2, 3)
    assert set(second.status.accounted_pods) == {"chief-0-of-1", "ps-0-of-1", "worker-0-of-1"}
    third = planned(
        stored(first, second.status), world(pod("chief", deleting=True), pod("worker", 1), pod("ps", 1)), later(60)
    )
    assert created(third) == ["worker-0"]


def test_an_evaluator_survives_the_restart_of_its_gang():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    lost = planned(of, world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED))))
    assert "evaluator-0" not in deleted(lost)


# --- counting ---


def test_members_of_a_gang_that_fail_together_are_one_failure():
    of = running(gang())
    status = status_of(planned(of, world(*(pod(p.role, p.index, exit=FAILED) for p in all_pods(of)))))
    assert (status.restarts, status.attempt) == (1, 2)
    assert (status.role("chief").failed, status.role("worker").failed) == (1, 2)


def test_parameter_servers_and_the_chief_that_fail_together_are_one_failure():
    of = running(parameter_server())
    lost = {"chief_0": pod("chief", exit=FAILED), "ps_0": pod("ps", 0, exit=FAILED), "ps_1": pod("ps", 1, exit=FAILED)}
    assert status_of(planned(of, world(*all_pods(of, **lost)))).restarts == 1


def test_workers_of_a_parameter_server_job_fail_each_by_itself():
    of = running(parameter_server())
    lost = {"worker_0": pod("worker", 0, exit=FAILED), "worker_1": pod("worker", 1, exit=FAILED)}
    status = status_of(planned(of, world(*all_pods(of, **lost))))
    assert (status.restarts, status.attempt) == (2, 2)


def test_a_disrupted_member_explains_the_failures_of_its_gang():
    of = running(gang())
    lost = {
        "worker_0": pod("worker", 0, exit=FAILED),
        "worker_1": pod("worker", 1, deleting=True, disruption="Evicted"),
    }
    status = status_of(planned(of, world(*all_pods(of, **lost))))
    assert (status.restarts, status.disruptions, status.last_failure.reason) == (0, 1, "Evicted")


def test_the_first_to_end_is_named_as_the_cause():
    of = running(gang())
    lost = {
        "chief_0": pod("chief", exit=exited(1, at=later(9))),
        "worker_0": pod("worker", 0, exit=exited(contract.EXIT_PEERS_MISSING, at=later(1))),
        "worker_1": pod("worker", 1, exit=exited(7, at=later(2))),
    }
    failure = status_of(planned(of, world(*all_pods(of, **lost)), now=later(10))).last_failure
    assert (failure.role, failure.index, failure.exit_code) == ("worker", 1, 7)


def test_a_failure_is_never_counted_twice():
    of = running(gang())
    lost = world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED)))
    first = after(of, lost)
    again = planned(first, lost)  # the operator died before it deleted anything
    assert again.status is None
    assert sorted(deleted(again)) == GANG


def test_the_dying_members_of_a_restarting_gang_are_not_counted():
    of = running(gang())
    first = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    dying = world(
        pod("chief", exit=exited(143), deleting=True), pod("worker", 0, exit=FAILED), pod("worker", 1, exit=FAILED)
    )
    assert after(first, dying).status.restarts == 1


def test_a_restart_that_is_still_waiting_for_its_pods_has_lost_nothing():
    of = running(gang())
    first = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    gone = after(first, world())
    partly = after(gone, world(pod("chief", attempt=2)))
    assert (partly.status.restarts, partly.status.disruptions, partly.status.attempt) == (1, 0, 2)


def test_accounted_pods_that_are_gone_are_dropped():
    of = running(parameter_server())
    first = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    assert first.status.accounted_pods == ("worker-1-of-1",)
    back = after(first, world(*all_pods(of, worker_1=pod("worker", 1, attempt=2))))
    assert back.status.accounted_pods == ()


def test_the_evaluator_has_its_own_count():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    status = status_of(planned(of, world(*all_pods(of, evaluator_0=pod("evaluator", exit=FAILED)))))
    assert (status.restarts, status.attempt, status.role("evaluator").failed) == (0, 1, 1)
    assert status.is_true(names.RUNNING)


def test_an_evaluator_and_a_worker_that_fail_together_are_both_accounted_for():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    lost = {"worker_0": pod("worker", 0, exit=FAILED), "evaluator_0": pod("evaluator", exit=FAILED)}
    status = status_of(planned(of, world(*all_pods(of, **lost))))
    assert (status.restarts, status.role("evaluator").failed) == (1, 1)
    assert status.accounted_pods == ("evaluator-0-of-1",)


# --- the limit ---


@pytest.mark.parametrize(("limit", "failures_survived"), [(0, 0), (1, 1), (3, 3)])
def test_the_job_fails_when_counted_failures_exceed_the_limit(limit, failures_survived):
    of = running(gang(backoffLimit=limit))
    for n in range(failures_survived):
        now = later(1000 * (n + 1))
        lost = world(*all_pods(of, n + 1, worker_1=pod("worker", 1, n + 1, exit=FAILED)))
        of = after(of, lost, now)
        assert not of.status.is_true(names.FAILED)
        of = after(of, world(*all_pods(of, n + 2)), now)
    last = failures_survived + 1
    of = after(of, world(*all_pods(of, last, worker_1=pod("worker", 1, last, exit=exited(137, "OOMKilled")))))
    assert reason(of.status, names.FAILED) == names.REASON_BACKOFF_LIMIT
    assert of.status.restarts == limit + 1
    assert "OOMKilled" in of.status.condition(names.FAILED).message


def test_disruptions_never_exhaust_the_limit():
    of = running(gang(backoffLimit=0))
    for attempt in range(1, 5):
        of = after(of, world(*all_pods(of, attempt, worker_1=pod("worker", 1, attempt, deleting=True))))
        of = after(of, world(*all_pods(of, attempt + 1)))
    assert (of.status.disruptions, of.status.is_true(names.FAILED)) == (4, False)


def test_the_failed_pods_of_a_failed_job_keep_their_logs():
    of = running(gang(backoffLimit=0))
    lost = planned(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    assert sorted(deleted(lost)) == ["chief-0", "worker-0"]


# --- what is said ---


def test_a_restart_is_said_in_the_conditions_until_everybody_is_back():
    of = running(gang())
    lost = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    assert (lost.status.phase, reason(lost.status, names.RESTARTING)) == (names.RESTARTING, names.REASON_ROLE_FAILED)
    assert not lost.status.is_true(names.RUNNING)
    partly = after(lost, world(pod("chief", attempt=2), pod("worker", 0, 2), pod("worker", 1, 2, waiting_reason="")))
    assert partly.status.phase == names.RESTARTING
    back = after(partly, world(*all_pods(of, 2)))
    assert (back.status.phase, back.status.condition(names.RESTARTING).reason) == (
        names.RUNNING,
        names.REASON_RECOVERED,
    )


def test_a_disruption_during_a_counted_restart_does_not_end_its_wait():
    of = running(parameter_server())
    first = after(of, world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED))))
    second = after(
        first, world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED), worker_1=pod("worker", 1, deleting=True)))
    )
    assert second.status.disruptions == 1
    assert reason(second.status, names.RESTARTING) == names.REASON_ROLE_FAILED


def test_a_restart_is_told_as_an_event_with_the_cause():
    of = running(job())
    lost = exited(137, "OOMKilled", "container trainer exceeded its memory limit of 16Gi")
    plan = planned(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=lost))))
    told = [event for event in plan.events if event.reason == names.REASON_ROLE_FAILED]
    assert len(told) == 1
    assert told[0].message == (
        "worker-1 OOMKilled (exit code 137): container trainer exceeded its memory limit of 16Gi; "
        "restarting every worker as attempt 2 (counted failures: 1 of at most 6)"
    )


def test_nothing_is_lost_before_anything_was_made():
    of = after(gang(), Observed())
    assert planned(of, world(), NOW).status is None
