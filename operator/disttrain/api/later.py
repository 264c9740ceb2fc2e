"""Parts of the spec that have their place in the schema and are refused in this version (`disttrain.api.rules`).

They are here from the start so that v1 is this schema with another version string: no conversion, ever.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from disttrain import names
from disttrain.api.types import Day, LabelKey, ListType, OpaqueMap, PositiveInt32, SpecModel

AnyRole = Literal["chief", "worker", "ps", "evaluator", "dataDispatcher", "dataWorker"]


class OnExitCodes(SpecModel):
    """batch/v1 PodFailurePolicyOnExitCodesRequirement, of the trainer container or its child."""

    operator: Literal["In", "NotIn"] = Field(description="Whether the exit code must be among values or not.")
    values: Annotated[
        tuple[Annotated[int, Field(ge=1, le=255)], ...],
        ListType("set"),
        Field(min_length=1, max_length=255, strict=False),
    ] = Field(description="Exit codes.")


class OnPodCondition(SpecModel):
    """batch/v1 PodFailurePolicyOnPodConditionsPattern."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(description="The pod condition's type.")
    status: Literal["True", "False", "Unknown"] | None = Field(
        None, description="The pod condition's status; True if left out."
    )


class PodFailurePolicyRule(SpecModel):
    """batch/v1 PodFailurePolicyRule, with a name and roles."""

    name: Annotated[str, StringConstraints(max_length=63)] | None = Field(
        None, description="Named in the message when the rule decides."
    )
    action: Literal["FailJob", "Count", "Ignore"] = Field(
        description="FailJob ends the job, Count restarts and counts, Ignore restarts without counting."
    )
    roles: Annotated[tuple[AnyRole, ...], ListType("set"), Field(max_length=6, strict=False)] | None = Field(
        None, description="The roles the rule is for; all if left out."
    )
    on_exit_codes: OnExitCodes | None = Field(None, description="Matches by the exit code.")
    on_pod_conditions: (
        Annotated[tuple[OnPodCondition, ...], ListType("atomic"), Field(min_length=1, max_length=20, strict=False)]
        | None
    ) = Field(None, description="Matches if the pod has one of these conditions.")


class PodFailurePolicy(SpecModel):
    """batch/v1 Job's podFailurePolicy, with roles."""

    rules: Annotated[tuple[PodFailurePolicyRule, ...], ListType("atomic"), Field(max_length=20, strict=False)] = Field(
        description="The first rule that matches decides."
    )


class Elastic(SpecModel):
    """Presence turns elastic training on."""

    min_replicas: int = Field(ge=1, le=names.MAX_WORKERS, description="Train on with at least this many workers.")
    batch: Literal["KeepGlobal", "KeepPerReplica"] = Field(
        "KeepGlobal", description="Which batch size stays as it is when the number of workers changes."
    )
    resize_delay_seconds: Day | None = Field(None, description="Wait this long before growing again.")


class RetentionPolicy(SpecModel):
    """What becomes of the claim."""

    when_deleted: Literal["Retain", "Delete"] = Field("Retain", description="Whether the claim outlives the job.")


class ClaimTemplate(SpecModel):
    """A PersistentVolumeClaim that is made with the job."""

    spec: OpaqueMap = Field(description="A core/v1 PersistentVolumeClaimSpec.")
    retention_policy: RetentionPolicy | None = Field(None, description="What becomes of the claim.")


class Gang(SpecModel):
    """Presence asks for all pods to be scheduled together."""

    schedule_timeout_seconds: PositiveInt32 | None = Field(
        None, description="Give up when the gang is not scheduled within this time."
    )


class Topology(SpecModel):
    """Where the pods should be near each other."""

    key: LabelKey = Field(description="The node label whose values are the domains.")
    mode: Literal["Preferred", "Required"] = Field("Preferred", description="A wish or a condition.")


class Scheduling(SpecModel):
    """How the job's pods are scheduled as a group."""

    gang: Gang | None = Field(None, description="All or nothing.")
    topology: Topology | None = Field(None, description="All in one topology domain.")
