"""The plan as a whole: precedence, crash safety at every write, and cost."""

from __future__ import annotations

import sys
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
    job,
    mirrored,
    parameter_server,
    planned,
    pod,
    respecified,
    running,
    stored,
    world,
)

DONE, FAILED = exited(0), exited(1)
BIG = {"roles": {"chief": 1, "worker": 5}}


def everything_at_once(of):
    """Suspended, succeeded, failed and resized in one instant."""
    pods = all_pods(of, chief_0=pod("chief", exit=DONE), worker_1=pod("worker", 1, exit=FAILED))
    return respecified(of, **BIG, suspend=True), world(*pods)


def test_deletion_goes_before_everything():
    of, observed = everything_at_once(running(gang()))
    assert planned(replace(of, deleting=True), observed).status is None


def test_a_terminal_status_goes_before_suspension():
    of, observed = everything_at_once(running(gang()))
    finished = after(replace(of, spec=of.spec.model_copy(update={"suspend": False})), observed)
    assert after(replace(finished, spec=of.spec), observed).status.phase == names.SUCCEEDED


def test_suspension_goes_before_success():
    of, observed = everything_at_once(running(gang()))
    assert after(of, observed).status.phase == names.SUSPENDED


def test_success_goes_before_failure_and_resize():
    of, observed = everything_at_once(running(gang()))
    awake = replace(of, spec=of.spec.model_copy(update={"suspend": False}))
    status = after(awake, observed).status
    assert (status.phase, status.restarts, status.attempt) == (names.SUCCEEDED, 0, 1)


def test_failure_goes_before_resize():
    of = respecified(running(gang()), **BIG)
    status = after(of, world(*all_pods(gang(), worker_1=pod("worker", 1, exit=FAILED)))).status
    assert (status.restarts, status.condition(names.RESTARTING).reason) == (1, names.REASON_ROLE_FAILED)


# --- crash safety ---

LOST = pod("worker", 1, exit=FAILED)
SUSPENDED = {"roles": {"chief": 1, "worker": 2}, "suspend": True}
CRASHES = {
    "start": (gang(), Observed()),
    "gang restart": (running(gang()), world(*all_pods(gang(), worker_1=LOST))),
    "worker restart": (running(parameter_server()), world(*all_pods(parameter_server(), worker_1=LOST))),
    "ps restart": (
        running(parameter_server()),
        world(*all_pods(parameter_server(), ps_0=pod("ps", 0, exit=FAILED))),
    ),
    "success": (running(gang()), world(*all_pods(gang(), chief_0=pod("chief", exit=DONE)))),
    "failure": (running(gang(backoffLimit=0)), world(*all_pods(gang(), worker_1=LOST))),
    "suspension": (respecified(running(gang()), **SUSPENDED), world(*all_pods(gang()))),
    "resize": (respecified(running(gang()), **BIG), world(*all_pods(gang()))),
    "invalid": (replace(running(gang()), spec=None), world(*all_pods(gang()))),
}


@pytest.mark.parametrize(("of", "observed"), CRASHES.values(), ids=CRASHES.keys())
def test_a_plan_broken_off_after_its_status_goes_on_where_it_broke_off(of, observed):
    whole = planned(of, observed)
    rest = planned(stored(of, whole.status), observed)
    assert rest.status is None
    assert (deleted(rest), created(rest)) == (deleted(whole), created(whole))


@pytest.mark.parametrize(("of", "observed"), CRASHES.values(), ids=CRASHES.keys())
def test_a_plan_whose_status_write_failed_is_made_again_unchanged(of, observed):
    assert planned(of, observed) == planned(of, observed)


@pytest.mark.parametrize(("of", "observed"), CRASHES.values(), ids=CRASHES.keys())
def test_a_plan_broken_off_between_its_deletes_deletes_the_rest(of, observed):
    whole = planned(of, observed)
    first = {delete.uid for delete in whole.deletes[:1]}
    going = [replace(p, deleting=True) if p.uid in first else p for p in observed.pods]
    rest = planned(stored(of, whole.status), replace(observed, pods=tuple(going)))
    assert {delete.uid for delete in rest.deletes} == {delete.uid for delete in whole.deletes} - first


def test_a_status_is_written_before_anything_is_deleted():
    for of, observed in CRASHES.values():
        assert planned(of, observed).status is not None


# --- cost ---


def calls(workers: int) -> int:
    """Function calls of the heaviest plans: the first, one with everybody running, and a restart of everybody."""
    of = job(roles={"worker": workers})
    pods = [pod("worker", index) for index in range(workers)]
    count = 0

    def counts(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counts)
    try:
        ran = after(after(of, Observed()), world(*pods))
        planned(ran, world(*pods))
        planned(ran, world(*pods[1:], pod("worker", 0, exit=FAILED)))
    finally:
        sys.setprofile(None)
    return count


def test_cost_is_linear_in_workers():
    """Past the jobs whose pods hold the literal TF_CONFIG, which is all of the job's addresses in each."""
    calls(10)  # what is made on first use
    base, small, large = calls(200), calls(300), calls(1200)
    assert (large - base) / (small - base) == pytest.approx(1000 / 100, rel=0.05)


@pytest.mark.parametrize("of", [mirrored(), gang(), parameter_server()], ids=["Mirrored", "gang", "ParameterServer"])
def test_a_plan_is_a_function_of_its_input(of):
    observed = world(*all_pods(of, worker_0=pod("worker", 0, exit=FAILED)))
    assert planned(running(of), observed) == planned(running(of), observed)
