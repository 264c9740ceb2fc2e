"""`spec` of a DistTrainJob: the one definition, from which the CRD is generated and by which manifests are read.

Field names are batch/v1 Job's wherever Job has the thing. Defaults that depend on other fields are applied by
`disttrain.api.defaults`; `JobSpec`s that the core sees have passed it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from disttrain import names
from disttrain.api.later import ClaimTemplate, Elastic, PodFailurePolicy, Scheduling
from disttrain.api.roles import (
    ResourceRequirements,
    Roles,
    RoleSpec,
    SingleRole,
    Toleration,
    WorkerRole,
)
from disttrain.api.types import (
    Day,
    Meant,
    NonNegativeInt32,
    PodTemplate,
    PositiveInt32,
    PositiveInt64,
    SpecModel,
)

__all__ = [
    "Checkpoint",
    "JobSpec",
    "Network",
    "Recovery",
    "ResourceRequirements",
    "RoleSpec",
    "Roles",
    "SingleRole",
    "Storage",
    "SuccessPolicy",
    "Toleration",
    "WorkerRole",
]


class SuccessPolicy(SpecModel):
    """When the job has succeeded."""

    type: Literal["Chief", "AllWorkers"] = Field(
        "Chief",
        description="Chief: when the chief (worker 0 where there is none) exits 0. AllWorkers: when chief and every "
        "worker exited 0; not under ParameterServer, whose workers never end by themselves.",
    )
    evaluator_grace_period_seconds: Day = Field(
        names.DEFAULT_EVALUATOR_GRACE_SECONDS,
        description="How long the evaluator may go on after success to evaluate the last checkpoint. Default 300.",
    )


class Recovery(SpecModel):
    """How a failed job comes back."""

    mode: Literal["InPlace", "Recreate"] = Field(
        "Recreate",
        description="Recreate: failed pods are deleted and made again. InPlace: processes restart within their pods; "
        "not in this version.",
    )
    warm_standby: Literal["Auto", "Never"] | None = Field(
        None, description="Whether a process with TensorFlow imported stands by in each pod. Not in this version."
    )


class Storage(SpecModel):
    """The job's one durable place: checkpoints, logs, evaluation and exported model."""

    claim_name: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = Field(
        None,
        description="An existing PersistentVolumeClaim in the job's namespace, mounted into every pod. With more than "
        "one pod it must be ReadWriteMany.",
    )
    claim_template: ClaimTemplate | None = Field(
        None, description="A PersistentVolumeClaim made with the job. Not in this version."
    )
    uri: Annotated[str, StringConstraints(max_length=1024, pattern=r"^[a-z][a-z0-9+.-]*://"), Meant("a URI")] | None = (
        Field(None, description="An object store such as gs://bucket/path. Not in this version.")
    )
    mount_path: Annotated[
        str,
        StringConstraints(max_length=256, pattern=r"^/[^:/][^:]*$"),
        Meant("an absolute path other than / and without colons"),
    ] = Field(
        names.DEFAULT_MOUNT_PATH, description="Where the claim is mounted in the trainer container. Default /disttrain."
    )
    sub_path: Annotated[str, StringConstraints(max_length=256)] = Field(
        "",
        description="A directory within the claim, relative, under which the job's own directory "
        "<job>-<first 8 of its uid> is made. Default: the claim's root.",
    )


class Checkpoint(SpecModel):
    """How often the leader saves, and where training begins. Changes take effect at the next restart."""

    every_steps: PositiveInt64 | None = Field(None, description="Save every this many steps.")
    every_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        None, description="Save when this much time has passed since the last save."
    )
    keep: int = Field(3, ge=1, le=1000, description="How many checkpoints are kept, the newest. Default 3.")
    local_every_steps: PositiveInt64 | None = Field(
        None, description="Save to the node every this many steps. Not in this version."
    )
    restore_from: (
        Annotated[
            str,
            StringConstraints(max_length=1024, pattern=r"^(/|[a-z][a-z0-9+.-]*://)"),
            Meant("an absolute path or a URI"),
        ]
        | None
    ) = Field(
        None,
        description="Begin from another job's checkpoint: its directory, as an absolute path or URI. Checkpoints "
        "of the job itself go before.",
    )


class Network(SpecModel):
    """Who may reach the job's pods."""

    policy: Literal["Isolated", "None"] = Field(
        "Isolated",
        description="Isolated: a NetworkPolicy lets only the job's own pods reach its TensorFlow servers, which run "
        "code for whoever reaches them. None: no NetworkPolicy. Default Isolated.",
    )


class JobSpec(SpecModel):
    """What to train and how. Only worker replicas, limits and policies change while the job runs."""

    strategy: names.Strategy = Field(
        description="The tf.distribute strategy. Mirrored: one pod, all its GPUs. MultiWorkerMirrored: synchronous "
        "over workers. ParameterServer: asynchronous, with parameter servers. Immutable."
    )
    suspend: bool = Field(
        False,
        description="While true the job has no pods; set back to false it resumes from its last checkpoint. "
        "The operator never writes it.",
    )
    managed_by: Annotated[
        str,
        StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9._~/-]+$"),
        Meant("a controller's name of the form domain/path"),
    ] = Field(
        names.OPERATOR,
        description="Who runs the job: disttrain.dev/operator (the default) or another controller, such as "
        "kueue.x-k8s.io/multikueue; the operator then leaves the job alone. Immutable.",
    )
    active_deadline_seconds: PositiveInt64 | None = Field(
        None, description="Fail the job when it has run this long. Not in this version."
    )
    startup_deadline_seconds: PositiveInt32 | None = Field(
        None, description="Fail the job when it does not run within this time. Not in this version."
    )
    progress_deadline_seconds: PositiveInt32 | None = Field(
        None, description="Restart when no step was made for this long. Not in this version."
    )
    backoff_limit: NonNegativeInt32 = Field(
        names.DEFAULT_BACKOFF_LIMIT,
        description="How many restarts for failures of the program the job may have over its life. Restarts for "
        "disruptions such as evictions do not count. Default 6.",
    )
    ttl_seconds_after_finished: NonNegativeInt32 | None = Field(
        None, description="Delete the job this long after it finished. Not in this version."
    )
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running",
        description="What is deleted when the job has finished: pods that still run (so those that ended keep their "
        "logs), all pods, or none. Default Running.",
    )
    success_policy: SuccessPolicy = Field(
        default_factory=SuccessPolicy, description="When the job has succeeded. Immutable."
    )
    pod_failure_policy: PodFailurePolicy | None = Field(
        None, description="Which failures end the job, count or do not count. Not in this version."
    )
    template: PodTemplate = Field(
        description="The pods of every role that brings no template of its own: a core/v1 PodTemplateSpec. The "
        "container named trainer, or the only one, runs the training. Changes only while the job is suspended."
    )
    roles: Roles = Field(default_factory=Roles, description="What runs, how often, and in what its pods differ.")
    elastic: Elastic | None = Field(None, description="Train on with fewer workers. Not in this version.")
    recovery: Recovery = Field(default_factory=Recovery, description="How a failed job comes back. Immutable.")
    storage: Storage | None = Field(
        None,
        description="The job's one durable place; without it a restarted job begins from nothing. Immutable.",
    )
    checkpoint: Checkpoint = Field(
        default_factory=Checkpoint,
        description="How often the leader saves to the storage, and where training begins.",
    )
    scheduling: Scheduling | None = Field(
        None, description="How the job's pods are scheduled as a group. Not in this version."
    )
    network: Network = Field(default_factory=Network, description="Who may reach the job's pods. Immutable.")

    def roles_in_use(self) -> tuple[names.Role, ...]:
        """The roles the job has, in the order of `names.ROLES`, also those scaled to 0."""
        return tuple(role for role in names.ROLES if self.roles.get(role) is not None)

    def replicas(self, role: names.Role) -> int:
        """The number of pods wanted of a role; 0 where the job has no such role."""
        spec = self.roles.get(role)
        return spec.replicas if spec else 0

    def pod_template(self, role: names.Role) -> dict[str, Any]:
        """The PodTemplateSpec of a role's pods with the role's overrides applied: a deep copy, the caller's own.

        Raises KeyError where the job has no such role.
        """
        spec = self.roles.get(role)
        if spec is None:
            raise KeyError(role)
        template = copy.deepcopy(spec.template if spec.template is not None else self.template)
        pod = template["spec"]
        if spec.resources is not None:
            pod["containers"][self.trainer_index(template)]["resources"] = _manifest(spec.resources)
        if spec.node_selector is not None:
            pod["nodeSelector"] = dict(spec.node_selector)
        if spec.tolerations is not None:
            pod["tolerations"] = [_manifest(toleration) for toleration in spec.tolerations]
        return template

    @staticmethod
    def trainer_index(template: Mapping[str, Any]) -> int:
        """Which container runs the training: the one named `trainer`, or the only one.

        Raises ValueError where neither exists; validation has ruled that out for every `JobSpec` the core sees.
        """
        containers = template["spec"]["containers"]
        for index, container in enumerate(containers):
            if container.get("name") == names.TRAINER_CONTAINER:
                return index
        if len(containers) == 1:
            return 0
        raise ValueError(f"{len(containers)} containers and none is named {names.TRAINER_CONTAINER}")


def _manifest(part: SpecModel) -> dict[str, Any]:
    dumped: dict[str, Any] = part.model_dump(by_alias=True, exclude_unset=True)
    return dumped
