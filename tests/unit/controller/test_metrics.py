"""Metrics: names and units by Prometheus' conventions, and label values from small sets only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from disttrain.api.status import JobStatus
from disttrain.controller.api_errors import Target
from disttrain.controller.cache import Cache
from disttrain.controller.keys import JOB, POD, RESOURCES
from disttrain.controller.metrics import LiveState, Metrics
from disttrain.core.model import Job
from tests.unit.controller.fakes import job_manifest


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def job() -> Job:
    entry = Cache(float).read(JOB, job_manifest())
    assert entry is not None
    assert isinstance(entry.value, Job)
    return entry.value


def live(metrics: Metrics, *jobs: Job) -> None:
    watches = [("pods", 3.0), ("pods", 8.0), ("services", 1.0)]
    metrics.registry.register(LiveState(lambda: (4, 2.5), lambda: watches, lambda: jobs))


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_every_name_is_ours_or_the_runtimes(metrics: Metrics, job: Job) -> None:
    live(metrics, job)
    names = {family.name for family in metrics.registry.collect()}
    assert {name for name in names if not name.startswith(("disttrain_", "process_", "python_"))} == set()


def test_the_build_is_known(metrics: Metrics) -> None:
    assert b'disttrain_build_info{python_version="' in generate_latest(metrics.registry)


def test_requests_are_counted_by_verb_resource_and_code(metrics: Metrics) -> None:
    metrics.observe_request(Target("create", RESOURCES[POD], "ml", "recsys-worker-0"), 201, 0.01)
    labels = {"verb": "create", "resource": "pods"}
    assert value(metrics, "disttrain_api_requests_total", **labels, code="201") == 1
    assert value(metrics, "disttrain_api_request_duration_seconds_count", **labels) == 1


def test_the_queue_is_read_at_the_scrape(metrics: Metrics) -> None:
    live(metrics)
    assert value(metrics, "disttrain_queue_depth") == 4
    assert value(metrics, "disttrain_queue_oldest_age_seconds") == 2.5


def test_the_age_of_a_resources_watches_is_that_of_the_oldest(metrics: Metrics) -> None:
    live(metrics)
    assert value(metrics, "disttrain_watch_age_seconds", resource="pods") == 8.0


def test_jobs_are_counted_by_phase_and_strategy(metrics: Metrics, job: Job) -> None:
    running = replace(job, status=JobStatus(phase="Running"))
    broken = replace(job, spec=None, status=JobStatus(phase="Failed"))
    live(metrics, job, running, running, broken)
    assert value(metrics, "disttrain_jobs", phase="Pending", strategy="MultiWorkerMirrored") == 1
    assert value(metrics, "disttrain_jobs", phase="Running", strategy="MultiWorkerMirrored") == 2
    assert value(metrics, "disttrain_jobs", phase="Failed", strategy="Invalid") == 1


def test_a_forged_phase_makes_no_new_series(metrics: Metrics, job: Job) -> None:
    live(metrics, replace(job, status=JobStatus(phase="x" * 100)))
    assert value(metrics, "disttrain_jobs", phase="Other", strategy="MultiWorkerMirrored") == 1
