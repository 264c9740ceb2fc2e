"""What a person watching a job wants to know at one moment; made from the job and its pods, pure data."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.core.model import Job, Pod, Report
from disttrain_agent import contract

STARTING: Final = "starting"
PENDING: Final = "pending"
RUNNING: Final = "running"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
SAVED: Final = "saved"

TRAINING: Final = "training"

# A training process goes through these again and again; only the display that is redrawn shows each of them.
_TRAINING_PHASES: Final = frozenset({"compiling", TRAINING, "saving", "evaluating", "exporting"})


@dataclass(frozen=True)
class Replica:
    """One row: `state` is a word, or a word and its reason; `milestone` is the same without phases that come and go."""

    role: str
    index: int
    attempt: int
    state: str
    milestone: str
    step: int | None = None
    loss: float | None = None
    failed: bool = False

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True)
class Snapshot:
    """A job as it stands at `time`; `status` is the one the core wrote last."""

    job: str
    strategy: str
    backoff_limit: int
    status: JobStatus
    replicas: tuple[Replica, ...]
    started: datetime
    time: datetime

    @property
    def seconds(self) -> float:
        """How long the run has taken."""
        return (self.time - self.started).total_seconds()


def replicas(job: Job, pods: Mapping[tuple[str, int], tuple[Pod, Report | None]]) -> tuple[Replica, ...]:
    """A row for every replica the job should have, in the order of `names.ROLES`. `pods` holds the newest of each."""
    if job.spec is None:
        return ()
    wanted = [(role, index) for role in job.spec.roles_in_use() for index in range(job.spec.replicas(role))]
    return tuple(_replica(role, index, pods.get((role, index))) for role, index in wanted)


def _replica(role: str, index: int, known: tuple[Pod, Report | None] | None) -> Replica:
    if known is None:
        return Replica(role, index, 0, PENDING, PENDING)
    pod, report = known
    state = _state(pod, report)
    return Replica(
        role=role,
        index=index,
        attempt=pod.attempt,
        state=state,
        milestone=_milestone(role, state, report),
        step=report.step if report else None,
        loss=report.loss if report else None,
        failed=_has_failed(pod),
    )


def _state(pod: Pod, report: Report | None) -> str:
    if pod.exit is not None:
        if pod.exit.code in (0, contract.EXIT_SAVED):
            return FINISHED if pod.exit.code == 0 and not pod.deleting else SAVED if pod.exit.code else STOPPED
        return STOPPED if pod.deleting else f"failed ({exit_words(pod.exit.code)})"
    if pod.deleting:
        return STOPPING
    if report is None:
        return STARTING
    if report.waiting_for:
        first = report.waiting_for[0].partition(":")[0]  # what comes after it is why
        more = f" +{len(report.waiting_for) - 1}" if len(report.waiting_for) > 1 else ""
        return f"waiting for {first}{more}"
    return report.phase or RUNNING


def _milestone(role: str, state: str, report: Report | None) -> str:
    if report is None or report.phase != state:
        return state
    return TRAINING if state in _TRAINING_PHASES and role != names.EVALUATOR else RUNNING


def _has_failed(pod: Pod) -> bool:
    return pod.exit is not None and not pod.deleting and pod.exit.code not in (0, contract.EXIT_SAVED)


def exit_words(code: int) -> str:
    """`exit code 1`, or the signal for 128 + n, such as `SIGKILL`."""
    try:
        return signal.Signals(code - 128).name if code > 128 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


def verdict(status: JobStatus) -> bool | None:
    """True once the job has Succeeded, False once it has Failed, None before."""
    if status.is_true(names.SUCCEEDED):
        return True
    return False if status.is_true(names.FAILED) else None
