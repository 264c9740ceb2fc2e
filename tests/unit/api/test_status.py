"""A stored status is read leniently and written strictly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disttrain.api.status import Condition, Evaluation, EvaluationMetric, JobStatus, LastFailure, Progress, RoleStatus
from tests.unit.api.test_parse import json_values

TIME = datetime(2026, 11, 30, 20, 0, 0, tzinfo=UTC)
RUNNING = Condition(
    type="Running",
    status="True",
    last_transition_time=TIME,
    reason="JobRunning",
    message="4 of 4",
    observed_generation=3,
)
STATUS = JobStatus(
    observed_generation=3,
    conditions=(RUNNING,),
    phase="Running",
    ready="3/4",
    attempt=2,
    restarts=1,
    start_time=TIME,
    accounted_pods=("u1",),
    last_failure=LastFailure(
        time=TIME, attempt=1, role="worker", index=2, reason="OOMKilled", exit_code=137, message="m"
    ),
    roles={"worker": RoleStatus(desired=4, ready=3, completed_indexes="0-1")},
    progress=Progress(step=1200, loss="nan", summary="1200/5000"),
    evaluation=Evaluation(step=1000, metrics=(EvaluationMetric(name="auc", value="0.91"),)),
)


def test_what_was_written_reads_back_equal() -> None:
    assert JobStatus.from_manifest(STATUS.to_manifest()) == STATUS


def test_it_is_written_in_kubernetes_form() -> None:
    assert STATUS.to_manifest() == {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-11-30T20:00:00Z",
                "reason": "JobRunning",
                "message": "4 of 4",
            }
        ],
        "phase": "Running",
        "ready": "3/4",
        "attempt": 2,
        "restarts": 1,
        "disruptions": 0,
        "startTime": "2026-11-30T20:00:00Z",
        "accountedPods": ["u1"],
        "lastFailure": {
            "time": "2026-11-30T20:00:00Z",
            "attempt": 1,
            "role": "worker",
            "index": 2,
            "reason": "OOMKilled",
            "exitCode": 137,
            "message": "m",
        },
        "roles": {
            "worker": {
                "desired": 4,
                "active": 0,
                "ready": 3,
                "terminating": 0,
                "succeeded": 0,
                "failed": 0,
                "completedIndexes": "0-1",
            }
        },
        "progress": {"step": 1200, "loss": "nan", "summary": "1200/5000"},
        "evaluation": {"step": 1000, "metrics": [{"name": "auc", "value": "0.91"}]},
    }


def test_times_are_whole_seconds_of_utc() -> None:
    time = datetime(2026, 11, 30, 21, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert JobStatus(start_time=time).start_time == TIME


def test_a_time_without_a_zone_is_an_error() -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        JobStatus(start_time=TIME.replace(tzinfo=None))


def test_a_long_message_is_cut_so_that_the_status_can_be_written() -> None:
    assert len(RUNNING.model_validate({**RUNNING.model_dump(), "message": "m" * 5000}).message) == 1024


def test_no_status_is_an_empty_one() -> None:
    assert JobStatus.from_manifest(None) == JobStatus()


AUC = EvaluationMetric(name="auc", value="0.91")
STORED_RUNNING = RUNNING.model_dump(by_alias=True, mode="json")
STORED_AUC = {"name": "auc", "value": "0.91"}


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ({"attempt": 2, "future": {"a": 1}}, JobStatus(attempt=2)),
        ({"attempt": "two", "restarts": 1}, JobStatus(restarts=1)),
        ({"attempt": -1}, JobStatus()),
        ({"conditions": [{"type": "X"}, STORED_RUNNING, 3]}, JobStatus(conditions=(RUNNING,))),
        (
            {"roles": {"worker": {"desired": 4, "ready": "x"}, "boss": {}}},
            JobStatus(roles={"worker": RoleStatus(desired=4)}),
        ),
        ({"progress": [], "phase": None, "startTime": "yesterday", "ready": "1/1"}, JobStatus(ready="1/1")),
        (
            {"evaluation": {"step": 3, "metrics": [{"name": "loss"}, STORED_AUC]}},
            JobStatus(evaluation=Evaluation(step=3, metrics=(AUC,))),
        ),
    ],
)
def test_what_is_not_understood_is_dropped_and_no_more(stored: dict[str, Any], kept: JobStatus) -> None:
    assert JobStatus.from_manifest(stored) == kept


fields = st.sampled_from(
    ["attempt", "conditions", "roles", "progress", "accountedPods", "lastFailure", "startTime", "x"]
)
items = st.dictionaries(
    st.sampled_from(["type", "status", "worker", "step", "metrics", "time"]), json_values, max_size=3
)


@settings(max_examples=300, deadline=None)
@given(stored=st.dictionaries(fields, json_values | items | st.lists(items, max_size=3), max_size=4))
def test_reading_never_raises_and_can_be_written_again(stored: dict[str, Any]) -> None:
    status = JobStatus.from_manifest(stored)
    assert JobStatus.from_manifest(status.to_manifest()) == status


def test_conditions_are_found_by_type() -> None:
    assert STATUS.is_true("Running")
    assert not STATUS.is_true("Failed")
    assert STATUS.condition("Running") is RUNNING
