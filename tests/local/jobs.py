"""Jobs, snapshots and times for tests that start nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from disttrain.api.parse import parse_job
from disttrain.api.spec import JobSpec
from disttrain.api.status import JobStatus, Progress
from disttrain.local.snapshot import Replica, Snapshot

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def spec_of(manifest: dict[str, Any]) -> JobSpec:
    job = parse_job(manifest)
    assert job.spec is not None, job.errors
    return job.spec


def container_job(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "metadata": {"name": "digits"},
        "spec": {
            "strategy": "MultiWorkerMirrored",
            "roles": {"worker": {"replicas": 2}},
            "template": {"spec": {"containers": [{"name": "trainer", **container}]}},
            **spec,
        },
    }


def status(**parts: Any) -> JobStatus:
    return JobStatus.model_validate(parts)


def progress(step: int = 350, total: int | None = 600, **parts: Any) -> Progress:
    given = {"loss": "0.1131", "steps_per_second": "12.5", "estimated_remaining_seconds": 20, **parts}
    return Progress.model_validate({"step": step, "total_steps": total, **given})


def replica(name: str, state: str, **parts: Any) -> Replica:
    role, _, index = name.rpartition("-")
    given = {"attempt": 1, "milestone": state, **parts}
    return Replica(role=role, index=int(index), state=state, **given)


def snapshot(*replicas: Replica, after: float = 62, **parts: Any) -> Snapshot:
    given: dict[str, Any] = {
        "job": "digits",
        "strategy": "ParameterServer",
        "backoff_limit": 6,
        "status": JobStatus(),
        **parts,
    }
    return Snapshot(replicas=replicas, started=NOW, time=NOW + timedelta(seconds=after), **given)
