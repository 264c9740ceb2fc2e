"""What is worth a line: the difference between two snapshots of a job, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from disttrain import names
from disttrain.api.status import Progress
from disttrain.core.model import Event
from disttrain.local import wording
from disttrain.local.jobdir import shown
from disttrain.local.snapshot import PENDING, STARTING, STOPPED, STOPPING, Replica, Snapshot

PROGRESS_SECONDS: Final = 5.0  # between two lines about progress
_MANY: Final = 8  # replicas that change alike are told one by one up to here


@dataclass(frozen=True)
class Line:
    """One thing that happened. `warning`: something went wrong."""

    time: datetime
    text: str
    warning: bool = False


def changes(before: Snapshot | None, after: Snapshot, events: Iterable[Event]) -> list[Line]:
    """What happened from one snapshot to the next, in an order that reads as a story."""
    texts: list[tuple[str, bool]] = []
    texts += [(text, failed) for text, failed in _replicas(before, after)]
    texts += [(event.message, True) for event in events if event.type == "Warning"]
    texts += [(text, False) for text in _status(before, after)]
    return [Line(after.time, text, warning) for text, warning in texts]


def _replicas(before: Snapshot | None, after: Snapshot) -> Iterator[tuple[str, bool]]:
    """Changes of replicas' milestones; many alike in one line."""
    known = {one.name: one for one in before.replicas} if before else {}
    alike: dict[tuple[str, bool], list[Replica]] = {}
    for one in after.replicas:
        old = known.get(one.name)
        # Of a replica that is replaced nobody needs to read that it was stopped: the failure is told, and its restart.
        told = _is_final(after) if one.milestone == STOPPED else one.milestone not in (PENDING, STOPPING)
        if told and (old is None or (old.milestone, old.attempt) != (one.milestone, one.attempt)):
            alike.setdefault((one.milestone, one.failed), []).append(one)
    for (milestone, failed), those in alike.items():
        again = milestone == STARTING and those[0].attempt > 1
        said = f"{milestone} again (attempt {those[0].attempt})" if again else milestone
        if len(those) > _MANY:
            yield f"{len(those)} replicas {said}: {those[0].name} to {those[-1].name}", failed
        else:
            yield from ((f"{one.name} {said}", failed) for one in those)


def _is_final(snapshot: Snapshot) -> bool:
    return snapshot.status.completion_time is not None or snapshot.status.is_true(names.SUSPENDED)


def _status(before: Snapshot | None, after: Snapshot) -> Iterator[str]:
    old, new = (before.status if before else None), after.status
    resume = new.last_resume
    if resume and resume.from_step is not None and (old is None or old.last_resume != resume):
        yield resumed(resume.from_step, resume.lost_steps)
    evaluation = new.evaluation
    if evaluation and evaluation.metrics and (old is None or old.evaluation != evaluation):
        yield f"evaluation of step {evaluation.step}: {wording.metrics(evaluation.metrics)}"
    model = new.model
    if model and model.location and (old is None or old.model is None or old.model.location != model.location):
        yield f"model exported to {shown(Path(model.location))}"


def resumed(step: int, lost: int | None) -> str:
    """`resumed from step 250 (40 steps repeated)`."""
    origin = f"resumed from step {step}" if step else "started again from step 0"
    return f"{origin} ({wording.counted(lost, 'step')} repeated)" if lost else origin


def progress(status: Progress | None) -> str:
    """`step 350/600 (58 %)  loss 0.1131  12.5 steps/s  ETA 0:20`, as far as known; empty before the first step."""
    if status is None or status.step is None:
        return ""
    parts = [f"step {status.step}"]
    if status.total_steps:
        parts = [f"step {status.step}/{status.total_steps} ({100 * status.step // status.total_steps} %)"]
    if status.loss is not None:
        parts.append(f"loss {_short(status.loss)}")
    if status.steps_per_second is not None:
        parts.append(f"{_short(status.steps_per_second)} steps/s")
    if status.estimated_remaining_seconds is not None:
        parts.append(f"ETA {wording.clock(status.estimated_remaining_seconds)}")
    return "  ".join(parts)


def _short(text: str) -> str:
    try:
        return wording.number(float(text))
    except ValueError:
        return text
