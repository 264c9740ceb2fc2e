"""When a job has succeeded: the table of `disttrain.core.policies.success`, a case a row, and who is not asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disttrain import names
from tests.unit.core.factory import (
    NOW,
    after,
    all_pods,
    children,
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

DONE = exited(0)
ALL_WORKERS = {"successPolicy": {"type": "AllWorkers"}}
CHIEF, ALL = names.REASON_CHIEF_SUCCEEDED, names.REASON_ALL_WORKERS_SUCCEEDED

CASES = {
    "Mirrored: its worker": (mirrored(), ["worker-0"], CHIEF),
    "MultiWorkerMirrored with a chief: the chief": (gang(), ["chief-0"], CHIEF),
    "MultiWorkerMirrored with a chief: not worker 0": (gang(), ["worker-0"], None),
    "MultiWorkerMirrored without a chief: worker 0": (job(), ["worker-0"], CHIEF),
    "MultiWorkerMirrored without a chief: not worker 1": (job(), ["worker-1"], None),
    "AllWorkers: not the chief alone": (gang(**ALL_WORKERS), ["chief-0"], None),
    "AllWorkers: not the workers alone": (gang(**ALL_WORKERS), ["worker-0", "worker-1"], None),
    "AllWorkers: chief and every worker": (gang(**ALL_WORKERS), ["chief-0", "worker-0", "worker-1"], ALL),
    "ParameterServer: the chief": (parameter_server(), ["chief-0"], CHIEF),
    "ParameterServer: not the workers": (parameter_server(), ["worker-0", "worker-1"], None),
    "the evaluator never decides": (gang(roles={"chief": 1, "worker": 1, "evaluator": 1}), ["evaluator-0"], None),
}


@pytest.mark.parametrize(("of", "done", "expected"), CASES.values(), ids=CASES.keys())
def test_the_deciding_replicas_exit_0(of, done, expected):
    ended = [
        replace(p, running=False, ready=False, exit=DONE) if f"{p.role}-{p.index}" in done else p for p in all_pods(of)
    ]
    status = status_of(planned(running(of), world(*ended)))
    assert reason(status, names.SUCCEEDED) == expected


@pytest.mark.parametrize("order", [lambda pods: pods, lambda pods: pods[::-1]], ids=["chief first", "worker first"])
@pytest.mark.parametrize("of", [gang(), parameter_server()], ids=["gang", "ParameterServer"])
def test_a_worker_that_fails_in_the_same_instant_changes_nothing(of, order):
    pods = all_pods(of, chief_0=pod("chief", exit=DONE), worker_1=pod("worker", 1, exit=exited(1)))
    status = status_of(planned(running(of), world(*order(pods))))
    assert (reason(status, names.SUCCEEDED), status.restarts) == (CHIEF, 0)


def test_a_chief_of_an_earlier_attempt_is_not_asked():
    of = running(gang())
    restarting = after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(1)))))
    late = world(*all_pods(of, chief_0=pod("chief", exit=DONE, deleting=True)))
    assert not after(restarting, late).status.is_true(names.SUCCEEDED)


def test_an_accounted_chief_is_not_asked_under_parameter_server():
    of = running(parameter_server())
    restarting = after(of, world(*all_pods(of, ps_0=pod("ps", 0, exit=exited(1)))))
    late = world(*all_pods(of, chief_0=pod("chief", exit=DONE, deleting=True)))
    assert not after(restarting, late).status.is_true(names.SUCCEEDED)


def test_a_chief_that_exits_0_because_it_was_told_to_go_has_not_succeeded():
    of = running(gang())
    obeyed = pod("chief", exit=DONE, deleting=True, disruption=names.REASON_POD_DELETED)
    status = status_of(planned(of, world(*all_pods(of, chief_0=obeyed))))
    assert (status.is_true(names.SUCCEEDED), status.disruptions) == (False, 1)


def test_completions_add_up_over_time_under_all_workers():
    of = running(gang(**ALL_WORKERS))
    chief = pod("chief", exit=DONE)
    first = after(of, world(*all_pods(of, chief_0=chief, worker_0=pod("worker", 0, exit=DONE))))
    last = world(pod("worker", 1, exit=DONE))  # the pods of the others are gone by now
    assert first.status.role("worker").completed_indexes == "0"
    assert reason(after(first, last).status, names.SUCCEEDED) == ALL


def test_completion_time_is_when_the_last_deciding_replica_ended():
    of = running(gang(**ALL_WORKERS))
    ends = {"chief_0": 10, "worker_0": 30, "worker_1": 20}
    pods = {slot: pod(slot[:-2], int(slot[-1]), exit=exited(0, at=later(at))) for slot, at in ends.items()}
    status = status_of(planned(of, world(*all_pods(of, **pods)), now=later(3600)))
    assert status.completion_time == later(30)


def test_completion_time_is_never_ahead_of_the_clock():
    of = running(gang())
    status = status_of(planned(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(0, at=later(99)))))))
    assert status.completion_time == NOW


def test_success_ends_every_other_condition():
    of = running(gang())
    status = status_of(planned(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE)))))
    assert {c.type for c in status.conditions if c.status == "True"} == {names.SUCCEEDED}
    assert status.phase == names.SUCCEEDED


def test_success_is_told_once():
    of = running(gang())
    done = world(*all_pods(of, chief_0=pod("chief", exit=DONE)))
    first = planned(of, done)
    second = planned(stored(of, first.status), done)
    assert [e.reason for e in first.events].count(names.SUCCEEDED) == 1
    assert names.SUCCEEDED not in [e.reason for e in second.events]


def test_a_succeeded_job_stays_succeeded_whatever_happens_to_its_pods():
    of = running(gang())
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=DONE))))
    for pods in ([], [pod("chief", exit=exited(1))], [pod("worker", 0, exit=exited(1)), pod("worker", 1)]):
        status = after(done, world(*pods, children=children())).status
        assert (status.is_true(names.SUCCEEDED), status.is_true(names.FAILED), status.restarts) == (True, False, 0)
