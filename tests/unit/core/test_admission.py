"""How a job begins: the table of `disttrain.core.policies.admission`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disttrain import names
from disttrain.api.errors import FieldError
from disttrain.core.model import Observed
from tests.unit.core.factory import (
    NOW,
    SETTINGS,
    after,
    all_pods,
    children,
    created,
    deleted,
    exited,
    gang,
    parameter_server,
    planned,
    pod,
    reason,
    running,
    status_of,
    stored,
    world,
)

FAULT = FieldError("spec.roles.worker.replicas", "must be between 0 and 10000, not -1")


def invalid(of):
    return replace(of, spec=None, errors=(FAULT,))


def test_a_new_job_gets_its_first_attempt_and_its_objects_in_order():
    plan = planned(parameter_server(), Observed())
    status = status_of(plan)
    assert (status.attempt, status.start_time, status.observed_generation) == (1, NOW, 1)
    assert [item["kind"] for item in plan.creates[:2]] == ["Service", "NetworkPolicy"]
    assert created(plan) == ["chief-0", "worker-0", "worker-1", "ps-0", "ps-1"]
    assert plan.urgent


def test_a_new_job_without_isolation_gets_no_network_policy():
    plan = planned(gang(network={"policy": "None"}), Observed())
    assert [item["kind"] for item in plan.creates].count("NetworkPolicy") == 0


def test_the_default_images_are_settled_when_the_job_begins():
    images = status_of(planned(gang(), Observed())).images
    assert (images.trainer, images.agent) == (SETTINGS.trainer_image, SETTINGS.agent_image)


def test_an_upgraded_operator_does_not_mix_images_in_one_job():
    of = after(gang(), Observed())
    newer = replace(SETTINGS, trainer_image="registry.test/trainer:2")
    plan = planned(of, world(pod("chief")), settings=newer)
    assert {item["spec"]["containers"][0]["image"] for item in plan.creates} == {SETTINGS.trainer_image}


@pytest.mark.parametrize("observed", [Observed(), world(pod("chief"))], ids=["nothing made yet", "with pods"])
def test_an_invalid_job_fails_with_the_faults_as_message(observed):
    plan = planned(invalid(gang()), observed)
    status = status_of(plan)
    assert reason(status, names.FAILED) == names.REASON_INVALID_SPEC
    assert str(FAULT) in status.condition(names.FAILED).message
    assert plan.creates == ()


def test_a_job_that_became_invalid_leaves_nothing_running():
    of = running(gang())
    plan = planned(invalid(of), world(*all_pods(of)))
    assert sorted(deleted(plan)) == ["chief-0", "worker-0", "worker-1"]


def test_an_invalid_job_stays_failed_and_quiet():
    of = after(invalid(gang()), Observed())
    assert planned(of, Observed()).status is None


def test_a_job_managed_by_somebody_else_is_left_alone():
    foreign = gang(managedBy=names.MANAGED_BY_MULTIKUEUE)
    assert planned(foreign, world(*all_pods(foreign))) == planned(replace(gang(), deleting=True), Observed())


def test_a_job_that_is_being_deleted_is_left_alone():
    of = replace(running(gang()), deleting=True)
    plan = planned(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(1)))))
    assert (plan.status, plan.deletes, plan.creates, plan.events) == (None, (), (), ())


def test_a_status_that_is_older_than_its_pods_takes_over_their_attempt():
    plan = planned(stored(gang(), None), Observed(pods=tuple(all_pods(gang(), 4)), children=children()))
    assert status_of(plan).attempt == 4
    assert (plan.deletes, plan.creates) == ((), ())


def test_pods_of_an_attempt_the_status_does_not_know_are_never_deleted_without_a_status_write():
    stale = running(gang())
    plan = planned(stale, world(*all_pods(gang(), 2, worker_1=pod("worker", 1, 2, exit=exited(1)))))
    assert plan.status is not None
