"""Events as events.k8s.io/v1 wants them: whatever is missing or too long would be refused."""

from __future__ import annotations

import pytest

from disttrain.controller.cache import Cache
from disttrain.controller.events import MAX_NOTE_BYTES, event_manifest
from disttrain.controller.keys import JOB
from disttrain.core.model import Event, Job
from tests.unit.controller.fakes import NOW, job_manifest


@pytest.fixture
def job() -> Job:
    entry = Cache(float).read(JOB, job_manifest())
    assert entry is not None
    assert isinstance(entry.value, Job)
    return entry.value


def test_an_event_is_about_exactly_this_job(job: Job) -> None:
    body = event_manifest(job, Event("Normal", "JobRunning", "2/2 pods are ready"), NOW, "operator-0")
    assert body["regarding"] == {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "namespace": "ml",
        "name": "recsys",
        "uid": "job-uid",
    }
    assert body["metadata"]["namespace"] == "ml"


@pytest.mark.parametrize("field", ["eventTime", "reportingController", "reportingInstance", "action", "reason", "type"])
def test_what_the_api_requires_is_there(job: Job, field: str) -> None:
    body = event_manifest(job, Event("Warning", "RoleFailed", "worker-0 exited 1"), NOW, "operator-0")
    assert 0 < len(body[field]) <= 128


def test_the_time_has_microseconds(job: Job) -> None:
    body = event_manifest(job, Event("Normal", "JobRunning", ""), NOW, "operator-0")
    assert body["eventTime"] == "2026-12-01T20:00:00.000000Z"


def test_two_events_have_two_names(job: Job) -> None:
    event = Event("Normal", "JobRunning", "")
    names = {event_manifest(job, event, NOW, "operator-0")["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2


@pytest.mark.parametrize("message", ["x" * 5000, "é" * 1000])
def test_a_long_message_is_cut_to_what_the_api_takes(job: Job, message: str) -> None:
    note = event_manifest(job, Event("Normal", "JobRunning", message), NOW, "operator-0")["note"]
    assert len(note.encode()) <= MAX_NOTE_BYTES
    assert note.endswith("…")
