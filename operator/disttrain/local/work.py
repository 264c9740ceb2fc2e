"""A job to run here: from a parsed manifest, or from the directory of an earlier run. What cannot run is refused."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from disttrain import names
from disttrain.api.errors import InvalidManifest
from disttrain.api.parse import load_documents, parse_job
from disttrain.api.spec import JobSpec
from disttrain.api.status import Condition, JobStatus
from disttrain.core.model import Job
from disttrain.local.errors import LocalError
from disttrain.local.jobdir import JobDir, of
from disttrain.local.launch import ignored, needs_tensorflow, unresolvable

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True)
class Request:
    """A valid job as its manifest has it, and the directory in which relative paths of it begin."""

    manifest: Mapping[str, Any]
    job: Job
    origin: Path


@dataclass(frozen=True)
class Work:
    """A job that has its directory and uid. `ignored`: what of its manifest means nothing on this machine."""

    manifest: Mapping[str, Any]
    job: Job
    spec: JobSpec
    directory: JobDir
    origin: Path
    ignored: tuple[str, ...]

    def with_status(self, job: Job) -> dict[str, Any]:
        """The whole object as an API server would return it: the user's manifest, uid, and the status of `job`."""
        given = self.manifest.get("metadata")
        metadata = {
            **(given if isinstance(given, Mapping) else {}),
            "namespace": job.namespace,
            "uid": job.uid,
            "generation": 1,
            "creationTimestamp": job.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        kept = {key: value for key, value in self.manifest.items() if key not in ("metadata", "status")}
        return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, **_rest(kept)} | {
            "status": job.status.to_manifest()
        }


def _rest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}


def check(request: Request, shell: Mapping[str, str]) -> list[str]:
    """Why the job cannot run on this machine, one line each; empty if it can."""
    spec = _spec(request.job)
    lines = unresolvable(spec, shell)
    if needs_tensorflow(spec) and importlib.util.find_spec("tensorflow") is None:
        lines.append(
            "TensorFlow is not installed, and a container without `command` runs the TensorFlow trainer: "
            "pip install 'disttrain[trainer]'"
        )
    return lines


def begin(request: Request, run_dir: Path, now: datetime) -> Work:
    """A new job: a uid of its own, so that it never finds what an earlier run of the same manifest has finished."""
    uid = str(uuid.uuid4())
    job = replace(request.job, uid=uid, created_at=now, status=JobStatus())
    return _work(request, job, of(run_dir, job.name, uid))


def resume(directory: JobDir, stored: Request, request: Request, now: datetime) -> Work:
    """Go on with the job of a directory, by the manifest `stored` there or by a newer one of it.

    Raises LocalError where the manifest is another job's.
    """
    job, before = request.job, stored.job
    if job.name != before.name:
        raise LocalError(f"--resume {directory.shown}: that is job {before.name}, and the manifest is {job.name}'s")
    if _spec(job).strategy != _spec(before).strategy:
        raise LocalError(
            f"--resume {directory.shown}: spec.strategy is {_spec(before).strategy} there and cannot be changed to "
            f"{_spec(job).strategy}; start a new run"
        )
    status = continued(before.status, now)
    return _work(request, replace(job, uid=before.uid, created_at=before.created_at, status=status), directory)


def continued(status: JobStatus, now: datetime) -> JobStatus:
    """The status from which a run goes on.

    A job that has failed is not over for the person who resumes it: it stands as suspended, with its count of restarts
    set back, and the core resumes it as any suspended job. Every other status goes on as it is.
    """
    if not status.is_true(names.FAILED):
        return status
    suspended = Condition(
        type=names.SUSPENDED,
        status="True",
        last_transition_time=now,
        reason=names.REASON_SUSPENDED,
        message="stopped after a failure",
    )
    kept = [one for one in status.conditions if one.type not in (names.FAILED, names.SUSPENDED, names.RESTARTING)]
    return status.model_copy(
        update={"conditions": (*kept, suspended), "completion_time": None, "restarts": 0, "accounted_pods": ()}
    )


def stored(directory: JobDir) -> Request:
    """The job of a directory as an earlier run left it, with its status. Raises LocalError where there is none."""
    try:
        [manifest] = load_documents(directory.read_job(), directory.shown)
        job = parse_job(manifest)
    except (InvalidManifest, ValueError) as error:
        raise LocalError(f"--resume {directory.shown}: the job stored there cannot be read: {error}") from error
    if job.spec is None or not job.uid:
        faults = "; ".join(str(error) for error in job.errors) or "it has no uid"
        raise LocalError(f"--resume {directory.shown}: the job stored there cannot be run by this version: {faults}")
    return Request(manifest, job, directory.origin())


def _work(request: Request, job: Job, directory: JobDir) -> Work:
    """What only means something where others share the machine is taken out of the spec, and named."""
    spec = _spec(request.job)
    local = spec.model_copy(
        update={
            "suspend": False,
            "managed_by": names.OPERATOR,
            # Nothing of a run may outlive it.
            "clean_pod_policy": "Running" if spec.clean_pod_policy == "None" else spec.clean_pod_policy,
        }
    )
    job = replace(job, namespace=job.namespace or DEFAULT_NAMESPACE, spec=local)
    return Work(request.manifest, job, local, directory, request.origin, tuple(ignored(spec)))


def _spec(job: Job) -> JobSpec:
    if job.spec is None:
        raise ValueError(f"job {job.name} is not valid: {job.errors}")
    return job.spec
