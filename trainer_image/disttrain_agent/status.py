"""The document an agent shows of itself, `GET /v1/status`, and its small form, the termination message. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, Final, Optional, Sequence, Union

from disttrain_agent import contract
from disttrain_agent.progress import Progress
from disttrain_agent.supervision import Phase, State

Document = Dict[str, Any]
"""JSON-compatible data without NaN or infinities."""

RATE_DIGITS: Final = 3


@dataclass(frozen=True)
class Identity:
    """Which task of which job this is."""

    job: str
    uid: str
    role: str
    index: int
    attempt: int


@dataclass(frozen=True)
class Snapshot:
    """All that a document is made of. `changed` is when anything in it last changed, in UTC."""

    identity: Identity
    state: State
    progress: Progress
    changed: datetime
    waiting_for: Sequence[str] = field(default_factory=tuple)
    error: Optional[str] = None
    """The agent's own words on why it ended; the program's (`contract.EVENT_ERROR`) come first."""


def document(snapshot: Snapshot) -> Document:
    """Every key is always there; null, or an empty list, where there is nothing to tell."""
    identity, state, progress = snapshot.identity, snapshot.state, snapshot.progress
    return {
        "version": contract.PROTOCOL_VERSION,
        "job": identity.job,
        "uid": identity.uid,
        "role": identity.role,
        "index": identity.index,
        "attempt": identity.attempt,
        "state": contract.STATE_STOPPING if state.phase is Phase.HOLDING else state.phase.value,
        "waitingFor": list(snapshot.waiting_for),
        "phase": progress.phase,
        "exitCode": state.exit_code,
        "reason": state.reason,
        "progress": _progress(progress),
        "resumedFrom": progress.resumed_from,
        "checkpoint": None
        if progress.checkpoint_step is None
        else {"step": progress.checkpoint_step, "location": progress.checkpoint_location},
        "evaluation": None
        if progress.evaluation_step is None
        else {"step": progress.evaluation_step, "metrics": dict(progress.evaluation_metrics)},
        "model": None
        if progress.model_location is None
        else {"location": progress.model_location, "metrics": dict(progress.model_metrics)},
        "error": progress.error or snapshot.error,
        "time": rfc3339(snapshot.changed),
    }


def _progress(progress: Progress) -> Optional[Dict[str, Union[float, str, None]]]:
    if progress.step is None:
        return None
    rate = progress.rate.per_second()
    return {
        "step": progress.step,
        "totalSteps": progress.total_steps,
        "epoch": progress.epoch,
        "loss": progress.loss,
        "stepsPerSecond": None if rate is None else round(rate, RATE_DIGITS),
    }


def rfc3339(time: datetime) -> str:
    """Whole seconds in UTC, as Kubernetes writes times (metav1.Time)."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
