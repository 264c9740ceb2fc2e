"""Rules between fields, once: for the API server as CEL, for `disttrain run` and the operator as Python, side by side.

A rule's CEL sees a manifest as the API server stores it, its predicate sees the model of the same manifest before
`disttrain.api.defaults`; both must come to the same answer, which the tests check on a real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from disttrain import names
from disttrain.api.roles import RoleSpec
from disttrain.api.spec import JobSpec, Storage

NOT_IN_THIS_VERSION: Final = "not in this version"
WHILE_SUSPENDED: Final = "changes only while the job is suspended"
IMMUTABLE: Final = "field is immutable"


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of every instance of `scope`, or else `message` about `field` (a path within it)."""

    scope: type[BaseModel]
    field: str
    message: str
    cel: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Transition:
    """What must hold between the stored spec and its successor. Only the API server knows both."""

    field: str
    message: str
    cel: str


def present(path: str, of: str = "self") -> str:
    """CEL: whether a dotted path is set, every part of it (has() of a missing parent is an error)."""
    parts = path.split(".")
    return " && ".join(f"has({of}.{'.'.join(parts[:end])})" for end in range(1, len(parts) + 1))


def _written(spec: BaseModel, path: str) -> Any:
    """What the manifest itself has at a dotted path; None where it has nothing (a null is refused before)."""
    part: Any = spec
    for step in path.split("."):
        name = next(name for name, field in type(part).model_fields.items() if field.alias == step)
        if name not in part.model_fields_set:
            return None
        part = getattr(part, name)
    return part


def _workers(spec: JobSpec) -> int:
    return spec.roles.worker.replicas if spec.roles.worker else 0


def _under_agent_mount(storage: Storage) -> bool:
    return f"{storage.mount_path.rstrip('/')}/".startswith(f"{names.AGENT_MOUNT_PATH}/")


_BETWEEN_FIELDS: Final = (
    Rule(
        JobSpec,
        "roles.ps",
        "only ParameterServer has parameter servers",
        "!has(self.roles) || !has(self.roles.ps) || self.strategy == 'ParameterServer'",
        lambda spec: spec.roles.ps is None or spec.strategy == names.PARAMETER_SERVER,
    ),
    Rule(
        JobSpec,
        "roles.chief",
        "Mirrored has no chief: its one pod is worker 0",
        "!has(self.roles) || !has(self.roles.chief) || self.strategy != 'Mirrored'",
        lambda spec: spec.roles.chief is None or spec.strategy != names.MIRRORED,
    ),
    Rule(
        JobSpec,
        "roles.ps",
        "ParameterServer needs at least one parameter server",
        "self.strategy != 'ParameterServer' || (has(self.roles) && has(self.roles.ps))",
        lambda spec: spec.strategy != names.PARAMETER_SERVER or spec.roles.ps is not None,
    ),
    Rule(
        JobSpec,
        "roles.worker",
        "ParameterServer needs at least one worker",
        "self.strategy != 'ParameterServer' || "
        "(has(self.roles) && has(self.roles.worker) && self.roles.worker.replicas != 0)",
        lambda spec: spec.strategy != names.PARAMETER_SERVER or _workers(spec) > 0,
    ),
    Rule(
        JobSpec,
        "roles.worker",
        "MultiWorkerMirrored needs at least one worker (replicas may be 0 only beside a chief)",
        "self.strategy != 'MultiWorkerMirrored' || (has(self.roles) && has(self.roles.worker) && "
        "(self.roles.worker.replicas != 0 || has(self.roles.chief)))",
        lambda spec: (
            spec.strategy != names.MULTI_WORKER_MIRRORED
            or (spec.roles.worker is not None and (_workers(spec) > 0 or spec.roles.chief is not None))
        ),
    ),
    Rule(
        JobSpec,
        "roles.worker.replicas",
        "must be 1 under Mirrored, which is one pod; for more use MultiWorkerMirrored",
        "self.strategy != 'Mirrored' || !has(self.roles) || !has(self.roles.worker) || self.roles.worker.replicas == 1",
        lambda spec: spec.strategy != names.MIRRORED or spec.roles.worker is None or _workers(spec) == 1,
    ),
    Rule(
        JobSpec,
        "successPolicy.type",
        "AllWorkers is impossible under ParameterServer, whose workers never end by themselves",
        "!has(self.successPolicy) || !has(self.successPolicy.type) || self.successPolicy.type != 'AllWorkers' || "
        "self.strategy != 'ParameterServer'",
        lambda spec: spec.success_policy.type != "AllWorkers" or spec.strategy != names.PARAMETER_SERVER,
    ),
    Rule(
        JobSpec,
        "checkpoint",
        "needs spec.storage: without it nothing outlives a pod",
        "!has(self.checkpoint) || has(self.storage)",
        lambda spec: _written(spec, "checkpoint") is None or spec.storage is not None,
    ),
    Rule(
        RoleSpec,
        "template",
        "replaces the shared template as a whole: put resources, nodeSelector and tolerations into it",
        "!has(self.template) || !(has(self.resources) || has(self.nodeSelector) || has(self.tolerations))",
        lambda role: role.template is None or (role.resources, role.node_selector, role.tolerations) == (None,) * 3,
    ),
    Rule(
        Storage,
        "claimName",
        "give exactly one of claimName, claimTemplate and uri",
        "(has(self.claimName) ? 1 : 0) + (has(self.claimTemplate) ? 1 : 0) + (has(self.uri) ? 1 : 0) == 1",
        lambda storage: [storage.claim_name, storage.claim_template, storage.uri].count(None) == 2,
    ),
    Rule(
        Storage,
        "subPath",
        "must be a relative path without ..",
        "!has(self.subPath) || !(self.subPath.startsWith('/') || self.subPath.split('/').exists(part, part == '..'))",
        lambda storage: not storage.sub_path.startswith("/") and ".." not in storage.sub_path.split("/"),
    ),
    Rule(
        Storage,
        "mountPath",
        f"must lie outside {names.AGENT_MOUNT_PATH}, where the agent is",
        f"!has(self.mountPath) || !(self.mountPath + '/').startsWith('{names.AGENT_MOUNT_PATH}/')",
        lambda storage: not _under_agent_mount(storage),
    ),
)

_LATER: Final[tuple[tuple[str, str | None], ...]] = (
    ("activeDeadlineSeconds", None),
    ("startupDeadlineSeconds", None),
    ("progressDeadlineSeconds", None),
    ("ttlSecondsAfterFinished", None),
    ("podFailurePolicy", None),
    ("elastic", None),
    ("recovery.mode", "InPlace"),
    ("recovery.warmStandby", None),
    ("storage.claimTemplate", None),
    ("storage.uri", None),
    ("checkpoint.localEverySteps", None),
    ("scheduling", None),
    ("roles.dataDispatcher", None),
    ("roles.dataWorker", None),
)
"""Fields that are in the schema and not built yet: refused if present, or if they have the value given."""


def _later(path: str, value: str | None) -> Rule:
    def absent(spec: JobSpec) -> bool:
        written = _written(spec, path)
        return written is None or (value is not None and written != value)

    differs = f" || self.{path} != '{value}'" if value else ""
    return Rule(JobSpec, path, NOT_IN_THIS_VERSION, f"!({present(path)}){differs}", absent)


RULES: Final = (*_BETWEEN_FIELDS, *(_later(path, value) for path, value in _LATER))


def transitions() -> Iterator[Transition]:
    """The rules for updates of a job, all in the scope of spec.

    Templates are not among them: the schema does not declare their fields, and a CEL rule of a CRD cannot see what is
    not declared. manifests/admission.yaml has those.
    """
    for path in ("strategy", "managedBy", "successPolicy", "network", "recovery", "storage"):
        # storage.claimTemplate.spec is undeclared like the templates; once it is accepted it needs a rule in admission.
        yield Transition(path, IMMUTABLE, _unchanged(path))
    for role in names.ROLES:
        path = f"roles.{role}"
        same = f"({present(path)}) == ({present(path, 'oldSelf')})"
        yield Transition(path, f"role {role} can be neither added nor removed", same)
    yield Transition(
        "roles.ps.replicas", IMMUTABLE, _where_both("roles.ps", "self.roles.ps.replicas == oldSelf.roles.ps.replicas")
    )
    for role in names.ROLES:
        path = f"roles.{role}"
        overrides = " && ".join(_equal(f"{path}.{part}") for part in ("resources", "nodeSelector", "tolerations"))
        yield Transition(
            path,
            f"resources, nodeSelector and tolerations: {WHILE_SUSPENDED}",
            f"(has(oldSelf.suspend) && oldSelf.suspend) || {_where_both(path, f'({overrides})')}",
        )


def _equal(path: str) -> str:
    """CEL: a field whose parent is on both sides is absent on both or equal."""
    return f"has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path})"


def _unchanged(path: str) -> str:
    return "self.strategy == oldSelf.strategy" if path == "strategy" else _equal(path)


def _where_both(path: str, condition: str) -> str:
    return f"!({present(path)}) || !({present(path, 'oldSelf')}) || {condition}"
