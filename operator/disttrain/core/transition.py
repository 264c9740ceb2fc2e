"""The two halves of a plan: what is written down, and what then has to be done.

A policy's `decide` turns a View into a Transition: a status that says what was decided. What to create and delete
follows from the status and the world alone (`Actions`), never from the decision itself. So a plan computed again after
a crash between any two writes finds the decision in the status and does the rest of the same work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disttrain import names
from disttrain.api.status import Condition, JobStatus
from disttrain.core.model import Delete, Event, Manifest
from disttrain.core.view import View


@dataclass(frozen=True, slots=True)
class Transition:
    """The status after a decision, and what to tell about it."""

    status: JobStatus
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Actions:
    """What a status asks to be done in the world as it is."""

    deletes: tuple[Delete, ...] = ()
    creates: tuple[Manifest, ...] = ()
    wake_at: datetime | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a condition is to say."""

    type: str
    holds: bool
    reason: str
    message: str


def changed(status: JobStatus, **parts: Any) -> JobStatus:
    """A copy with some parts replaced, checked and cut to the schema's bounds as everything written must be."""
    unchanged = {name: getattr(status, name) for name in type(status).model_fields if name not in parts}
    return JobStatus.model_validate({**unchanged, **parts}, by_name=True)


def stated(view: View, status: JobStatus, claims: Iterable[Claim]) -> JobStatus:
    """The status with these conditions set. As metav1.Condition asks, a transition time moves only with a flip."""
    by_type = {condition.type: condition for condition in status.conditions}
    for claim in claims:
        value = "True" if claim.holds else "False"
        before = by_type.get(claim.type)
        flipped = before is None or before.status != value
        by_type[claim.type] = Condition(
            type=claim.type,
            status=value,
            observed_generation=view.job.generation,
            last_transition_time=view.now if before is None or flipped else before.last_transition_time,
            reason=claim.reason,
            message=claim.message,
        )
    return changed(status, conditions=tuple(by_type.values()))


def is_terminal(status: JobStatus) -> bool:
    """Whether the job has ended. Nothing leads out of this."""
    return status.is_true(names.SUCCEEDED) or status.is_true(names.FAILED)


def failed(view: View, status: JobStatus, reason: str, message: str) -> Transition:
    """The job has failed for good."""
    status = changed(status, completion_time=view.now)
    return Transition(
        stated(view, status, [Claim(names.FAILED, True, reason, message)]),
        (Event("Warning", reason, message),),
    )
