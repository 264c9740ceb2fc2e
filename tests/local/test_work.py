"""New jobs and jobs that are gone on with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disttrain.api.parse import parse_job
from disttrain.api.status import JobStatus
from disttrain.local.errors import LocalError
from disttrain.local.jobdir import Claim, JobDir
from disttrain.local.work import Request, Work, begin, continued, resume, stored
from tests.local.jobs import NOW, container_job, status


def request(**spec: Any) -> Request:
    manifest = container_job({"command": ["x"]}, **spec)
    return Request(manifest, parse_job(manifest), Path("/jobs"))


def begun(tmp_path: Path, **spec: Any) -> Work:
    work = begin(request(**spec), tmp_path, NOW)
    work.directory.make(work.origin)
    return work


def test_a_new_job_has_a_directory_named_after_itself(tmp_path: Path) -> None:
    work = begin(request(), tmp_path, NOW)
    assert work.directory.path == tmp_path / f"digits-{work.job.uid[:8]}"


def test_the_same_manifest_twice_is_two_jobs(tmp_path: Path) -> None:
    assert begin(request(), tmp_path, NOW).job.uid != begin(request(), tmp_path, NOW).job.uid


def test_queue_and_other_controllers_mean_nothing_here(tmp_path: Path) -> None:
    work = begin(request(suspend=True, managedBy="kueue.x-k8s.io/multikueue", cleanPodPolicy="None"), tmp_path, NOW)
    assert (work.spec.suspend, work.spec.managed_by, work.spec.clean_pod_policy) == (
        False,
        "disttrain.dev/operator",
        "Running",
    )


def test_the_object_shown_is_the_users_manifest_with_identity_and_status(tmp_path: Path) -> None:
    work = begin(request(suspend=True), tmp_path, NOW)
    shown = work.with_status(replace(work.job, status=status(phase="Running")))
    assert list(shown) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert shown["spec"]["suspend"] is True
    assert shown["metadata"]["uid"] == work.job.uid
    assert shown["metadata"]["creationTimestamp"] == "2026-11-30T12:00:00Z"
    assert shown["status"]["phase"] == "Running"


def test_what_is_stored_is_read_back_the_same(tmp_path: Path) -> None:
    work = begun(tmp_path)
    job = replace(work.job, status=status(attempt=2, restarts=1, phase="Running", start_time=NOW))
    work.directory.write_job(work.with_status(job))
    before = stored(work.directory)
    assert (before.job.uid, before.job.status, before.job.created_at) == (job.uid, job.status, NOW)


def test_a_resumed_job_keeps_uid_and_status_and_takes_the_new_manifest(tmp_path: Path) -> None:
    work = begun(tmp_path)
    work.directory.write_job(work.with_status(replace(work.job, status=status(attempt=2))))
    again = resume(work.directory, stored(work.directory), request(backoffLimit=9), NOW)
    assert (again.job.uid, again.job.status.attempt, again.spec.backoff_limit) == (work.job.uid, 2, 9)


def test_a_status_that_ran_goes_on_as_it_is() -> None:
    running = status(attempt=2, restarts=1)
    assert continued(running, NOW) is running


def failed() -> JobStatus:
    conditions = [
        {"type": name, "status": "True", "reason": "R", "message": "m", "last_transition_time": NOW}
        for name in ("Failed", "Restarting", "PodsReady")
    ]
    return status(attempt=3, restarts=3, disruptions=1, completion_time=NOW, start_time=NOW, conditions=conditions)


def test_a_failed_status_goes_on_as_a_suspended_one_with_its_restarts_back() -> None:
    after = continued(failed(), NOW)
    assert [one.type for one in after.conditions if one.status == "True"] == ["PodsReady", "Suspended"]
    assert (after.restarts, after.attempt, after.completion_time) == (0, 3, None)


def test_a_directory_without_a_job_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"cannot read job\.json there .* such as disttrain-runs/"):
        stored(JobDir(tmp_path))


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({"kind": "DistTrainJob"})])
def test_a_broken_job_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(LocalError, match="the job stored there cannot be"):
        stored(JobDir(tmp_path))


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=r"cannot write to .*: Not a directory; name another place with --run-dir"):
        begin(request(), tmp_path / "file", NOW).directory.make(tmp_path)


def test_one_directory_is_used_by_one_run_at_a_time(tmp_path: Path) -> None:
    directory = JobDir(tmp_path)
    with Claim(directory), pytest.raises(LocalError, match="in use by another"), Claim(directory):
        pass


def test_a_directory_is_free_after_its_run(tmp_path: Path) -> None:
    for _ in range(2):
        with Claim(JobDir(tmp_path)):
            pass


def test_where_the_manifest_lay_is_remembered(tmp_path: Path) -> None:
    directory = JobDir(tmp_path / "run")
    directory.make(tmp_path)
    assert directory.origin() == tmp_path


def test_a_manifest_directory_that_is_gone_is_replaced_by_the_current_one(tmp_path: Path) -> None:
    directory = JobDir(tmp_path / "run")
    directory.make(tmp_path / "gone")
    assert directory.origin() == Path.cwd()
