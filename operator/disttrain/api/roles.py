"""`spec.roles`: what runs, how often, and in what its pods differ from the shared template."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from disttrain import names
from disttrain.api.types import (
    IntOrString,
    LabelKey,
    LabelValue,
    ListType,
    NonNegativeInt64,
    PodTemplate,
    ResourceName,
    SchemaDefault,
    SpecModel,
    quantity,
)

Quantity = Annotated[str | int, IntOrString(), BeforeValidator(quantity)]
Resources = Annotated[dict[ResourceName, Quantity], Field(max_length=32)]


class ResourceRequirements(SpecModel):
    """core/v1 ResourceRequirements, without claims."""

    requests: Resources = Field({}, description="What the scheduler sets aside for the container, by resource name.")
    limits: Resources = Field({}, description="What the container may use at most, by resource name.")


class Toleration(SpecModel):
    """core/v1 Toleration."""

    key: LabelKey | None = Field(None, description="The taint's key; left out with operator Exists: every key.")
    operator: Annotated[str, StringConstraints(max_length=16)] | None = Field(
        None, description="How key and value are compared: Equal (the default), Exists, Lt or Gt."
    )
    value: LabelValue | None = Field(None, description="The taint's value.")
    effect: Annotated[str, StringConstraints(max_length=32)] | None = Field(
        None, description="NoSchedule, PreferNoSchedule or NoExecute; left out: every effect."
    )
    toleration_seconds: NonNegativeInt64 | None = Field(
        None, description="With effect NoExecute: how long a running pod tolerates the taint."
    )


class RoleSpec(SpecModel):
    """One role. It takes the shared template, with whole parts of it replaced, or brings a template of its own."""

    replicas: Annotated[int, SchemaDefault()] = Field(1, ge=0, le=names.MAX_WORKERS, description="How many pods.")
    template: PodTemplate | None = Field(
        None,
        description="A pod template of the role's own, in place of spec.template as a whole: nothing is merged. "
        "Changes only while the job is suspended.",
    )
    resources: ResourceRequirements | None = Field(
        None,
        description="Replaces the resources of the trainer container of the shared template as a whole. "
        "Changes only while the job is suspended.",
    )
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None = Field(
        None,
        description="Replaces the shared template's nodeSelector as a whole. Changes only while the job is suspended.",
    )
    tolerations: Annotated[tuple[Toleration, ...], ListType("atomic"), Field(max_length=32, strict=False)] | None = (
        Field(
            None,
            description="Replaces the shared template's tolerations as a whole. "
            "Changes only while the job is suspended.",
        )
    )


class SingleRole(RoleSpec):
    """A role of which there is exactly one pod."""

    replicas: Annotated[int, SchemaDefault()] = Field(1, ge=1, le=1, description="Always 1.")


class WorkerRole(RoleSpec):
    """The workers."""

    replicas: Annotated[int, SchemaDefault()] = Field(
        1,
        ge=0,
        le=names.MAX_WORKERS,
        description="How many workers; `kubectl scale` changes it. A running job restarts from its last checkpoint "
        "with the new number.",
    )


class ParameterServerRole(RoleSpec):
    """The parameter servers."""

    replicas: Annotated[int, SchemaDefault()] = Field(
        1, ge=1, le=names.MAX_PARAMETER_SERVERS, description="How many parameter servers."
    )


class DataWorkerRole(RoleSpec):
    """The tf.data service workers."""

    replicas: Annotated[int, SchemaDefault()] = Field(
        1, ge=1, le=names.MAX_WORKERS, description="How many tf.data service workers."
    )


class Roles(SpecModel):
    """Every role of the job. Roles are neither added nor removed once the job exists."""

    chief: SingleRole | None = Field(
        None,
        description="The coordinator under ParameterServer (made if left out), the first worker under "
        "MultiWorkerMirrored (worker 0 leads if left out); not under Mirrored. It saves checkpoints and exports the "
        "model.",
    )
    worker: WorkerRole | None = Field(
        None, description="Those that compute gradients. Under Mirrored the one pod of the job (made if left out)."
    )
    ps: ParameterServerRole | None = Field(
        None, description="Parameter servers, which hold the variables; only under ParameterServer, and needed there."
    )
    evaluator: SingleRole | None = Field(
        None,
        description="Evaluates each new checkpoint beside the training. It never decides whether the job succeeds and "
        "its restarts are not counted.",
    )
    data_dispatcher: SingleRole | None = Field(
        None, description="The dispatcher of a tf.data service. Not in this version."
    )
    data_worker: DataWorkerRole | None = Field(
        None, description="The workers of a tf.data service. Not in this version."
    )

    def get(self, role: names.Role) -> RoleSpec | None:
        """The role's spec; None where the job has no such role."""
        spec: RoleSpec | None = getattr(self, role)
        return spec
