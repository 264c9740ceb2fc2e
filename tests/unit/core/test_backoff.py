"""How long a restart waits: the table of `disttrain.core.policies.backoff`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from disttrain import names
from disttrain.core.policies.backoff import wait
from tests.unit.core.factory import (
    after,
    all_pods,
    created,
    deleted,
    exited,
    gang,
    job,
    later,
    mirrored,
    planned,
    pod,
    respecified,
    running,
    stored,
    world,
)

FAILED = exited(1)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 300), (8, 300), (10_000, 300)],
)
def test_the_series(failures, seconds):
    assert wait(failures, 10.0) == timedelta(seconds=seconds)


def failed_times(times: int):
    """A Mirrored job after so many counted failures, the last one at NOW, its pods gone."""
    of = stored(
        running(mirrored(backoffLimit=99)), running(mirrored()).status.model_copy(update={"restarts": times - 1})
    )
    return after(of, world(pod("worker", exit=FAILED)))


def test_the_first_restart_comes_at_once():
    assert created(planned(failed_times(1), world())) == ["worker-0"]


def test_a_later_restart_waits_and_asks_to_be_woken():
    plan = planned(failed_times(3), world(), later(19))
    assert (created(plan), plan.wake_at) == ([], later(20))


def test_the_wait_is_said():
    status = failed_times(3).status
    assert "restart 3 waits until 2026-12-01T12:00:20Z" in status.condition(names.PODS_READY).message


def test_pods_come_when_the_wait_is_over():
    assert created(planned(failed_times(3), world(), later(20))) == ["worker-0"]


def test_deletes_do_not_wait():
    of = running(gang(backoffLimit=99))
    of = stored(of, of.status.model_copy(update={"restarts": 5}))
    plan = planned(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=FAILED))))
    assert sorted(deleted(plan)) == ["chief-0", "worker-0", "worker-1"]


def disrupted(reason: str):
    of = running(job())
    return after(of, world(*all_pods(of, worker_1=pod("worker", 1, exit=exited(-1), disruption=reason))))


def test_a_disruption_does_not_wait():
    assert len(created(planned(disrupted("Evicted"), world()))) == 2


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "NodeAffinity"])
def test_a_pod_that_its_node_refused_waits_a_little(reason):
    plan = planned(disrupted(reason), world(), later(9))
    assert (created(plan), plan.wake_at) == ([], later(10))
    assert len(created(planned(disrupted(reason), world(), later(10)))) == 2


def test_a_resize_does_not_wait_for_an_earlier_failure():
    of = failed_times(5)
    grown = respecified(of, "MultiWorkerMirrored", roles={"worker": 2})
    assert len(created(planned(after(grown, world()), world()))) == 2


# --- the evaluator's own ---


def evaluator_failed(times: int):
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    roles = {**of.status.roles, "evaluator": of.status.role("evaluator").model_copy(update={"failed": times - 1})}
    of = stored(of, of.status.model_copy(update={"roles": roles}))
    pods = all_pods(of, evaluator_0=pod("evaluator", exit=FAILED))
    return after(of, world(*pods)), world(*pods)


def test_an_evaluator_is_replaced_at_once_the_first_time():
    of, observed = evaluator_failed(1)
    assert deleted(planned(of, observed)) == ["evaluator-0"]


def test_an_evaluator_that_fails_again_keeps_its_pod_for_the_wait():
    of, observed = evaluator_failed(3)
    plan = planned(of, observed, later(19))
    assert (deleted(plan), plan.wake_at) == ([], later(20))
    assert deleted(planned(of, observed, later(20))) == ["evaluator-0"]


def test_training_does_not_wait_for_the_evaluator():
    of, _ = evaluator_failed(6)
    lost = world(pod("chief"), pod("worker", 0, exit=FAILED), pod("evaluator", exit=FAILED))
    assert sorted(created(planned(after(of, lost), world(pod("evaluator", exit=FAILED))))) == ["chief-0", "worker-0"]
