"""Jobs, pods and worlds for tests of the core, in as few words as the case needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings

from disttrain import names
from disttrain.api.parse import parse_job
from disttrain.api.status import JobStatus
from disttrain.core.model import Child, Exit, Job, Observed, Plan, Pod, Report, Settings
from disttrain.core.plan import plan

ANYTHING = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests with generated input: the same every time, however busy the machine is."""

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
SETTINGS = Settings(trainer_image="registry.test/trainer:1", agent_image="registry.test/agent:1")
UID = "1a2b3c4d-0000-4000-8000-000000000001"
OTHER_UID = "9f9f9f9f-0000-4000-8000-000000000002"


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def manifest(strategy: str = names.MULTI_WORKER_MIRRORED, **spec: Any) -> dict[str, Any]:
    """A valid manifest: `roles` as {role: replicas}, other keyword arguments as fields of the spec."""
    roles = spec.pop("roles", {"worker": 1 if strategy == names.MIRRORED else 2})
    body = {
        "strategy": strategy,
        "template": {"spec": {"containers": [{"name": "trainer", "args": ["train.py"]}]}},
        "roles": {role: {"replicas": replicas} for role, replicas in roles.items()},
        **spec,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "recsys", "namespace": "team-a", "uid": UID, "generation": 1},
        "spec": body,
    }


def job(strategy: str = names.MULTI_WORKER_MIRRORED, **spec: Any) -> Job:
    parsed = parse_job(manifest(strategy, **spec))
    assert not parsed.errors, parsed.errors
    return parsed


def mirrored(**spec: Any) -> Job:
    return job(names.MIRRORED, **spec)


def gang(**spec: Any) -> Job:
    """MultiWorkerMirrored with a chief and two workers."""
    return job(names.MULTI_WORKER_MIRRORED, **{"roles": {"chief": 1, "worker": 2}, **spec})


def parameter_server(**spec: Any) -> Job:
    """ParameterServer with a chief, two workers and two parameter servers."""
    return job(names.PARAMETER_SERVER, **{"roles": {"chief": 1, "worker": 2, "ps": 2}, **spec})


def pod(role: str, index: int = 0, attempt: int = 1, **facts: Any) -> Pod:
    """A pod that runs and is ready, but for the facts given."""
    ended = facts.get("exit") is not None
    waiting = facts.get("waiting_reason") is not None
    up = not ended and not waiting
    defaults: dict[str, Any] = {
        "name": f"recsys-{role}-{index}",
        "uid": f"{role}-{index}-of-{attempt}",
        "owner_uid": UID,
        "deleting": False,
        "running": up,
        "ready": up and not facts.get("deleting", False),
        "exit": None,
    }
    return Pod(role=role, index=index, attempt=attempt, **{**defaults, **facts})


def exited(
    code: int, reason: str = "", message: str = "", at: datetime | None = NOW, report: Report | None = None
) -> Exit:
    return Exit(code, reason or ("Completed" if code == 0 else "Error"), message, at, report)


def children(owner_uid: str = UID, **facts: Any) -> tuple[Child, ...]:
    return tuple(
        Child(
            kind=kind, name="recsys", uid=f"{kind}-of-{owner_uid}", owner_uid=owner_uid, **{"deleting": False, **facts}
        )
        for kind in ("Service", "NetworkPolicy")
    )


def world(*pods: Pod, **facts: Any) -> Observed:
    """These pods, and the job's Service and NetworkPolicy."""
    return Observed(**{"pods": pods, "children": children(), **facts})


def all_pods(of: Job, attempt: int = 1, **changes: Pod) -> list[Pod]:
    """One running pod a slot; `worker_1=...` puts another into a slot."""
    assert of.spec is not None
    slots = [(role, index) for role in of.spec.roles_in_use() for index in range(of.spec.replicas(role))]
    return [changes.get(f"{role}_{index}", pod(role, index, attempt)) for role, index in slots]


def planned(of: Job, observed: Observed, now: datetime = NOW, settings: Settings = SETTINGS) -> Plan:
    return plan(of, observed, now, settings)


def stored(of: Job, status: JobStatus | Mapping[str, Any] | None, **facts: Any) -> Job:
    """The job as the API server gives it back after a status write."""
    data = status.to_manifest() if isinstance(status, JobStatus) else status
    return replace(of, status=JobStatus.from_manifest(data), **facts)


def after(of: Job, observed: Observed, now: datetime = NOW) -> Job:
    """The job once the status of one plan was written."""
    decided = planned(of, observed, now)
    return of if decided.status is None else stored(of, decided.status)


def running(of: Job, *pods: Pod) -> Job:
    """The job once all of its pods ran."""
    return after(after(of, Observed()), world(*(pods or all_pods(of))))


def respecified(of: Job, strategy: str | None = None, **spec: Any) -> Job:
    """The job with another spec and the next generation; its status stays."""
    assert of.spec is not None
    changed = parse_job(manifest(strategy or of.spec.strategy, **spec))
    assert not changed.errors, changed.errors
    return replace(of, spec=changed.spec, generation=of.generation + 1)


def deleted(of: Plan, kind: str = "Pod") -> list[str]:
    return [delete.name.removeprefix("recsys-") for delete in of.deletes if delete.kind == kind]


def created(of: Plan, kind: str = "Pod") -> list[str]:
    made = (item["metadata"]["name"] for item in of.creates if item["kind"] == kind)
    return [name.removeprefix("recsys-") for name in made]


def status_of(plan: Plan) -> JobStatus:
    assert plan.status is not None, "the plan writes no status"
    return plan.status


def reason(status: JobStatus, condition: str) -> str | None:
    """The reason of a condition that is True, else None."""
    found = status.condition(condition)
    return found.reason if found is not None and found.status == "True" else None
