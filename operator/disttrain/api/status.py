"""`status` of a DistTrainJob: what the operator last wrote about it.

Everything is optional, since a status may be absent, old, or edited by hand. Losses and rates are strings: a NaN has no
JSON number, and the API server refuses a status that holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from disttrain import names
from disttrain.api.types import EXACT_MAX, INT32_MAX, ListType


def rfc3339(time: datetime) -> str:
    """A time as metav1.Time has it: UTC, whole seconds, `2026-11-30T20:00:00Z`."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _whole_seconds(value: Any) -> Any:
    """metav1.Time has no fractions: cut them here, so that a status reads back equal to what was written."""
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("not an RFC 3339 time")
    return time.astimezone(UTC).replace(microsecond=0)


def _cut(limit: int) -> BeforeValidator:
    """A text past its bound would make the API server refuse the whole status, so it is cut."""
    return BeforeValidator(
        lambda value: value[: limit - 1] + "…" if isinstance(value, str) and len(value) > limit else value
    )


Time = Annotated[datetime, BeforeValidator(_whole_seconds), PlainSerializer(rfc3339)]
Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
Steps = Annotated[int, Field(ge=0, le=EXACT_MAX)]
Number = Annotated[str, _cut(32), Field(max_length=32)]
Word = Annotated[str, _cut(253), Field(max_length=253)]
Message = Annotated[str, _cut(names.MAX_MESSAGE_LENGTH), Field(max_length=names.MAX_MESSAGE_LENGTH)]
Location = Annotated[str, _cut(1024), Field(max_length=1024)]
Selector = Annotated[str, _cut(512), Field(max_length=512)]
Summary = Annotated[str, _cut(256), Field(max_length=256)]
Indexes = Annotated[str, Field(max_length=65_536)]


class StatusModel(BaseModel):
    """A part of the status: frozen, unknown fields dropped."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )

    @field_validator("*", mode="after", check_fields=False)
    @classmethod
    def _nothing_said(cls, value: Any) -> Any:
        """A part in which nothing is set is no part: it would not be written, so it must not differ from none."""
        if isinstance(value, StatusModel) and not _without_empty(value.model_dump(exclude_none=True)):
            return None
        return value


class Condition(StatusModel):
    """metav1.Condition."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What is said.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: Steps | None = Field(None, description="The generation of the spec it was said of.")
    last_transition_time: Time = Field(description="When the status last changed.")
    reason: Word = Field(description="Why, in one CamelCase word.")
    message: Message = Field(description="Why, for people.")


class RoleStatus(StatusModel):
    """The pods of one role."""

    desired: Count = Field(0, description="Pods wanted.")
    active: Count = Field(0, description="Pods that exist and have not ended.")
    ready: Count = Field(0, description="Pods that are ready.")
    terminating: Count = Field(0, description="Pods being deleted.")
    succeeded: Count = Field(0, description="Pods whose training process exited 0.")
    failed: Count = Field(0, description="Failures counted over the job's life.")
    completed_indexes: Indexes | None = Field(
        None, description='Indexes of replicas that exited 0 and are not run again, such as "0-2,5".'
    )
    selector: Selector | None = Field(None, description="Label selector of the role's pods.")


class Images(StatusModel):
    """The operator's default images as they were when the job began: an upgrade never mixes images in one job."""

    trainer: Location | None = Field(None, description="Used where the template names no image.")
    agent: Location | None = Field(None, description="From which the agent is taken.")


class LastFailure(StatusModel):
    """The last failure of a pod."""

    time: Time | None = Field(None, description="When it was seen.")
    attempt: Count | None = Field(None, description="The attempt of the pod that failed.")
    role: Word | None = Field(None, description="The role of the pod that failed.")
    index: Count | None = Field(None, description="The index of the pod that failed.")
    reason: Word | None = Field(None, description="Why, in one word, such as OOMKilled.")
    exit_code: Annotated[int, Field(ge=-INT32_MAX, le=INT32_MAX)] | None = Field(
        None, description="The exit code of the trainer container."
    )
    message: Message | None = Field(None, description="Why, for people.")


class LastResume(StatusModel):
    """Where training continued after the last restart."""

    time: Time | None = Field(None, description="When it continued.")
    from_step: Steps | None = Field(None, description="The checkpoint's step; 0: from nothing.")
    lost_steps: Steps | None = Field(None, description="Steps that had to be made again.")


class Progress(StatusModel):
    """How far training is, as the leader last said."""

    step: Steps | None = Field(None, description="Optimizer steps made, of the whole job.")
    total_steps: Steps | None = Field(None, description="Steps in all, where the program knows.")
    epoch: Steps | None = Field(None, description="The current epoch.")
    loss: Number | None = Field(None, description="The last loss, as a string: it may be NaN.")
    steps_per_second: Number | None = Field(None, description="The current rate, as a string.")
    estimated_remaining_seconds: Steps | None = Field(None, description="At the current rate.")
    time: Time | None = Field(None, description="When the leader said so.")
    summary: Summary | None = Field(None, description="All of it in one line.")


class CheckpointStatus(StatusModel):
    """The last checkpoint."""

    step: Steps | None = Field(None, description="The step it was saved at.")
    time: Time | None = Field(None, description="When it was seen.")
    location: Location | None = Field(None, description="Where it is.")


class EvaluationMetric(StatusModel):
    """One metric."""

    name: Annotated[str, Field(max_length=128)] = Field(description="The metric's name.")
    value: Annotated[str, _cut(64), Field(max_length=64)] = Field(description="Its value, as a string: it may be NaN.")


Metrics = Annotated[tuple[EvaluationMetric, ...], ListType("map", key="name"), Field(max_length=32)]


class Evaluation(StatusModel):
    """The last evaluation."""

    step: Steps | None = Field(None, description="The step of the checkpoint that was evaluated.")
    time: Time | None = Field(None, description="When it was seen.")
    metrics: Metrics = Field((), description="What came out.")


class ModelStatus(StatusModel):
    """The exported model."""

    location: Location | None = Field(None, description="Where it is.")
    time: Time | None = Field(None, description="When it was seen.")
    metrics: Metrics = Field((), description="Its final metrics.")


class Goodput(StatusModel):
    """Where the time went. Not reported in this version."""

    useful_seconds: Steps | None = Field(None, description="Training that was kept.")
    startup_seconds: Steps | None = Field(None, description="From creation to the first step.")
    rendezvous_seconds: Steps | None = Field(None, description="Replicas waiting for each other.")
    lost_seconds: Steps | None = Field(None, description="Training that had to be made again.")
    stalled_seconds: Steps | None = Field(None, description="No step made.")


class JobStatus(StatusModel):
    """What the operator last wrote about a job."""

    observed_generation: Steps | None = Field(None, description="The generation of the spec that was acted on.")
    conditions: Annotated[tuple[Condition, ...], ListType("map", key="type"), Field(max_length=16)] = Field(
        (), description="Suspended, PodsReady, Running, Restarting, Succeeded, Failed."
    )
    phase: Word | None = Field(None, description="Derived from the conditions, for the table of `kubectl get` only.")
    ready: Word | None = Field(None, description='Ready pods of those wanted, such as "3/4".')
    attempt: Count = Field(0, description="The current generation of pods; written before they are made.")
    restarts: Count = Field(0, description="Restarts counted against backoffLimit.")
    disruptions: Count = Field(0, description="Restarts not counted.")
    start_time: Time | None = Field(None, description="When the job began or last resumed.")
    completion_time: Time | None = Field(None, description="When the job succeeded or failed.")
    accounted_pods: Annotated[
        tuple[Annotated[str, Field(max_length=64)], ...], ListType("atomic"), Field(max_length=names.MAX_PODS)
    ] = Field((), description="Uids of pods whose failure is counted and that still exist.")
    last_failure: LastFailure | None = Field(None, description="The last failure of a pod.")
    last_resume: LastResume | None = Field(None, description="Where training continued after the last restart.")
    images: Images | None = Field(None, description="The operator's default images when the job began.")
    roles: dict[names.Role, RoleStatus] = Field({}, description="The pods of each role.")
    progress: Progress | None = Field(None, description="How far training is.")
    checkpoint: CheckpointStatus | None = Field(None, description="The last checkpoint.")
    evaluation: Evaluation | None = Field(None, description="The last evaluation.")
    model: ModelStatus | None = Field(None, description="The exported model.")
    goodput: Goodput | None = Field(None, description="Where the time went. Not reported in this version.")

    def condition(self, condition_type: str) -> Condition | None:
        """The condition of a type, or None."""
        return next((condition for condition in self.conditions if condition.type == condition_type), None)

    def is_true(self, condition_type: str) -> bool:
        """Whether a condition is there and holds."""
        condition = self.condition(condition_type)
        return condition is not None and condition.status == "True"

    def role(self, role: names.Role) -> RoleStatus:
        """The pods of a role; all zero where nothing was written of it yet."""
        return self.roles.get(role, RoleStatus())

    @classmethod
    def from_manifest(cls, data: Mapping[str, Any] | None) -> JobStatus:
        """Read a stored status. Parts that are not understood are dropped, whoever wrote them; never raises."""
        rest: Any = dict(data) if isinstance(data, Mapping) else {}
        while True:
            rest = _without_empty(rest)  # a copy, in which parts can be dropped
            try:
                return cls.model_validate(rest, by_alias=True, by_name=False)
            except ValidationError as error:
                faults = error.errors(include_url=False, include_context=False, include_input=False)
                broken = _outermost({_existing(rest, fault["loc"]) for fault in faults})
                if not broken:
                    raise AssertionError("every fault of a status lies in one of its parts") from error
                for path in broken:
                    _drop(rest, path)

    def to_manifest(self) -> dict[str, Any]:
        """The status as JSON-compatible data: camelCase, RFC 3339 times, without what is not set or empty.

        What is read back is equal to what was written.
        """
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        manifest: dict[str, Any] = _without_empty(dumped)
        return manifest


def _existing(data: Any, location: tuple[int | str, ...]) -> tuple[Any, ...]:
    """The longest part of a fault's location that is there: a missing field condemns the object that should have it."""
    path: list[Any] = []
    for step in location:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            break
        path.append(step)
    return tuple(path)


def _outermost(paths: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Paths without those inside another, later list items first so that deleting one does not move the next."""
    kept = {path for path in paths if path and not any(path[:end] in paths for end in range(1, len(path)))}
    return sorted(kept, reverse=True)


def _drop(data: Any, path: tuple[Any, ...]) -> None:
    for step in path[:-1]:
        data = data[step]
    del data[path[-1]]


def _without_empty(value: Any) -> Any:
    """Empty lists and maps say nothing; leaving them out keeps the status short."""
    if isinstance(value, dict):
        parts = {key: _without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in ({}, [], ())}
    if isinstance(value, list | tuple):
        return [_without_empty(item) for item in value]
    return value
