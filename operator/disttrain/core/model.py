"""What the core reasons about: a job, what is observed of it, and the plan that follows.

Pure data. The shells (`disttrain.controller` in a cluster, `disttrain.local` on a laptop) turn their world into `Job`
and `Observed`, ask `disttrain.core.plan.plan` and carry out the `Plan`; they decide nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from disttrain.api.job import Job
from disttrain.api.status import JobStatus

__all__ = ["Child", "Delete", "Event", "Exit", "Job", "Manifest", "Observed", "Plan", "Pod", "Report", "Settings"]

Manifest = dict[str, Any]
"""A Kubernetes object as JSON-compatible data."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The administrator's choices that shape a job's objects. Times in seconds."""

    trainer_image: str
    agent_image: str
    operator_namespace: str = "disttrain-system"
    cluster_domain: str = "cluster.local"
    restart_backoff_seconds: float = 10.0
    """Wait before the second counted restart; doubles up to 300 s. The first restart comes at once."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the trainer container ended (core/v1 ContainerStateTerminated).

    `code` is 128 + signal where a signal ended it. `message` is for people; `report` is the agent's last word, parsed
    from the termination message, or None where there is no agent.
    """

    code: int
    reason: str
    message: str
    finished_at: datetime | None
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a training process said of itself, by its agent: `GET /v1/status` or the termination message.

    Steps count optimizer steps of the whole job. Everything is optional: an image without an agent reports nothing.
    """

    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    loss: float | None = None
    steps_per_second: float | None = None
    resumed_from: int | None = None
    """The checkpoint step from which this process continued; 0 when it began from nothing; None before that."""
    checkpoint_step: int | None = None
    checkpoint_location: str | None = None
    evaluation_step: int | None = None
    evaluation_metrics: Mapping[str, float] = field(default_factory=dict)
    model_location: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Final metrics of the exported model, such as accuracy."""
    phase: str | None = None
    waiting_for: tuple[str, ...] = ()
    error: str | None = None
    time: datetime | None = None
    attempt: int | None = None
    """Of which attempt's pod this was said; None where it did not say so."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a job, reduced to what decisions need. The trainer container's state counts, not the pod's phase."""

    name: str
    uid: str
    owner_uid: str
    role: str
    index: int
    attempt: int
    deleting: bool
    running: bool
    """The trainer container runs."""
    ready: bool
    exit: Exit | None
    """Set once the trainer container has ended, or the pod failed as a whole (eviction, lost node)."""
    disruption: str | None = None
    """Why Kubernetes, not the program, ended the pod (DisruptionTarget reason, Evicted, NodeShutdown, ...)."""
    waiting_reason: str | None = None
    """Why it does not run yet, in Kubernetes' word: Unschedulable, ImagePullBackOff, ContainerCreating, ..."""
    waiting_message: str = ""
    sidecars_running: bool = False
    """A container beside the trainer's still runs, so the pod holds its resources although the trainer has ended."""


@dataclass(frozen=True, slots=True)
class Child:
    """A Service or NetworkPolicy that carries the job's name."""

    kind: str
    name: str
    uid: str
    owner_uid: str
    deleting: bool


@dataclass(frozen=True, slots=True)
class Observed:
    """All that is known of a job's world at one moment.

    `pods` and `children` hold every object labelled with the job's name in its namespace, a predecessor's too (delete
    and re-create under the same name): `owner_uid` tells whose they are.
    """

    pods: tuple[Pod, ...] = ()
    children: tuple[Child, ...] = ()
    reports: Mapping[tuple[str, int], Report] = field(default_factory=dict)
    """By (role, index), from running agents; empty where nobody asks them."""
    foreign: frozenset[tuple[str, str]] = frozenset()
    """(kind, name) of objects that stand in the way and belong to somebody else."""
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(kind, name) -> the API server's words, for creates refused since the last change (quota, admission)."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object: `uid` is a precondition, so a namesake made meanwhile is never hit."""

    kind: Literal["Pod", "Service", "NetworkPolicy"]
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes event about the job, written after the status it belongs to."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in this order: write `status`, then `deletes`, then `creates`, then tell `events`.

    `status` is None when nothing changed. `urgent` is False when only counters or progress moved: the shell may then
    hold the write back for a moment and merge it with the next. `wake_at`: reconcile again at this time even if
    nothing happens.
    """

    status: JobStatus | None = None
    urgent: bool = False
    deletes: tuple[Delete, ...] = ()
    creates: tuple[Manifest, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None
