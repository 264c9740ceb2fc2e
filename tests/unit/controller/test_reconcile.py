"""A look at a job: the order of writes, what a conflict stops, and what is remembered of the answers."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from disttrain import names
from disttrain.api.status import Condition, JobStatus
from disttrain.controller.api_errors import ApiError, Conflict, NotFound, Refused, Unavailable
from disttrain.controller.keys import JOB
from disttrain.controller.reconcile import HOLD_SECONDS
from disttrain.core.model import Delete, Plan
from tests.unit.controller.fakes import JOB_UID, KEY, NOW, deleting, job_manifest, pod
from tests.unit.controller.stage import FULL, STATUS, Stage, fails, worker


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.watch.told(job_manifest(10))
    return stage


# --- order ---


async def test_the_order_is_status_deletes_service_pods_events(stage: Stage) -> None:
    await stage.look(FULL)
    assert stage.api.calls == [
        ("status", "recsys"),
        ("delete", "recsys-worker-9"),
        ("create", "recsys"),
        ("create", "recsys-worker-0"),
        ("create", "Created"),
    ]


async def test_a_plan_without_anything_to_do_writes_nothing(stage: Stage) -> None:
    assert await stage.look(Plan()) == math.inf
    assert stage.api.calls == []


async def test_the_status_is_written_against_the_version_it_was_computed_from(stage: Stage) -> None:
    await stage.look(FULL)
    assert stage.api.identities == [{"name": "recsys", "namespace": "ml", "uid": JOB_UID, "resourceVersion": "10"}]


async def test_the_next_status_is_written_against_the_answer_to_the_last(stage: Stage) -> None:
    await stage.look(Plan(status=STATUS, urgent=True))
    await stage.look()
    assert stage.api.identities[1]["resourceVersion"] == "100"


async def test_a_conflict_stops_everything_else(stage: Stage) -> None:
    stage.api.errors["status", "recsys"] = fails(Conflict, "patch")
    with pytest.raises(Conflict):
        await stage.look(FULL)
    assert stage.api.verbs() == ["status"]
    assert stage.count("disttrain_reconciles_total", outcome="conflict") == 1


async def test_a_job_that_is_gone_when_its_status_is_written_is_forgotten(stage: Stage) -> None:
    stage.api.errors["status", "recsys"] = fails(NotFound, "patch", 404)
    assert await stage.look(FULL) is None
    assert stage.api.verbs() == ["status"]
    assert stage.cache.observed(KEY) is None


async def test_a_job_that_is_not_there_needs_no_plan(stage: Stage) -> None:
    stage.cache.gone(JOB, KEY, JOB_UID)
    assert await stage.look(FULL) is None
    assert stage.seen == []


async def test_events_are_told_although_a_create_failed_after_the_status_was_written(stage: Stage) -> None:
    stage.api.errors["create", "recsys"] = fails(Unavailable, code=500)
    with pytest.raises(Unavailable):
        await stage.look(FULL)
    assert stage.api.calls[-1] == ("create", "Created")


async def test_an_event_that_cannot_be_written_is_not_an_error(stage: Stage) -> None:
    stage.api.errors["create", "Created"] = fails(Refused, code=403)
    await stage.look(FULL)
    assert stage.count("disttrain_reconciles_total", outcome="success") == 1


async def test_it_comes_again_when_the_plan_says(stage: Stage) -> None:
    assert await stage.look(Plan(wake_at=NOW + timedelta(seconds=40))) == 40.0
    assert await stage.look(Plan(wake_at=NOW - timedelta(seconds=1))) == 0.0


# --- status writes that can wait ---


async def test_a_status_that_is_not_urgent_waits_and_is_written_once(stage: Stage) -> None:
    plan = Plan(status=STATUS)
    assert await stage.look(plan) == HOLD_SECONDS
    stage.timers.advance(0.4)
    assert await stage.look(plan) == pytest.approx(HOLD_SECONDS - 0.4)
    assert stage.api.calls == []
    stage.timers.advance(0.6)
    await stage.look(plan)
    assert stage.api.verbs() == ["status"]


async def test_what_is_written_in_the_end_is_the_last_status(stage: Stage) -> None:
    await stage.look(Plan(status=STATUS))
    await stage.look(Plan(status=JobStatus(attempt=1, phase="Running"), urgent=True))
    assert [status["phase"] for status in stage.api.statuses] == ["Running"]


async def test_a_change_that_is_taken_back_is_never_written(stage: Stage) -> None:
    await stage.look(Plan(status=STATUS))
    await stage.look(Plan())
    stage.timers.advance(60)
    await stage.look(Plan())
    assert stage.api.calls == []


async def test_a_status_that_deletes_depend_on_does_not_wait(stage: Stage) -> None:
    await stage.look(Plan(status=STATUS, deletes=FULL.deletes))
    assert stage.api.verbs() == ["status", "delete"]


# --- deletes ---


def doomed(uid: str = "pod-0") -> Plan:
    return Plan(deletes=(Delete("Pod", worker(0), uid),))


async def test_a_pod_that_ends_in_its_own_time_is_known_to_be_terminating(stage: Stage) -> None:
    stage.watch.told(pod(0, 20))
    stage.api.delete_answers[worker(0)] = deleting(pod(0), 30)
    await stage.look(doomed())
    await stage.look(Plan())
    assert [each.deleting for each in stage.seen[1][1].pods] == [True]
    assert stage.count("disttrain_pods_deleted_total") == 1


async def test_a_pod_whose_node_was_faster_than_the_delete_is_known_to_be_gone(stage: Stage) -> None:
    stage.watch.told(pod(0, 20))
    answer = deleting(pod(0), 30)
    del answer["metadata"]["resourceVersion"]  # what the API server answers then
    stage.api.delete_answers[worker(0)] = answer
    await stage.look(doomed())
    await stage.look(Plan())
    assert stage.seen[1][1].pods == ()


@pytest.mark.parametrize("error", [fails(NotFound, "delete", 404), fails(Conflict, "delete")])
async def test_a_pod_that_is_gone_or_another_by_now_counts_as_gone(stage: Stage, error: ApiError) -> None:
    stage.watch.told(pod(0, 20))
    stage.api.errors["delete", worker(0)] = error
    await stage.look(doomed())
    await stage.look(Plan())
    assert stage.seen[1][1].pods == ()


async def test_a_delete_that_was_not_answered_is_tried_again(stage: Stage) -> None:
    stage.watch.told(pod(0, 20))
    stage.api.errors["delete", worker(0)] = fails(Unavailable, "delete", 0)
    with pytest.raises(Unavailable):
        await stage.look(doomed())
    await stage.look(Plan())
    assert len(stage.seen[1][1].pods) == 1


# --- what is measured ---


def restarting(reason: str) -> JobStatus:
    condition = Condition(
        type=names.RESTARTING, status="True", last_transition_time=NOW, reason=reason, message="worker-0 exited 1"
    )
    return JobStatus(attempt=2, restarts=1, conditions=(condition,))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [(names.REASON_ROLE_FAILED, "RoleFailed"), (names.REASON_DISRUPTED, "Disrupted"), ("SomethingNew", "Other")],
)
async def test_a_restart_is_counted_by_its_cause(reason: str, cause: str) -> None:
    stage = Stage()
    stage.watch.told(job_manifest(10, status={"attempt": 1}))
    await stage.look(Plan(status=restarting(reason), urgent=True))
    assert stage.count("disttrain_restarts_total", cause=cause) == 1


async def test_the_first_attempt_is_no_restart(stage: Stage) -> None:
    await stage.look(Plan(status=restarting(names.REASON_ROLE_FAILED), urgent=True))
    assert stage.count("disttrain_restarts_total", cause="RoleFailed") == 0
