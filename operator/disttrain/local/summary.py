"""The last words on a job: the verdict, the figures, where everything is, and on failure why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.local import wording
from disttrain.local.jobdir import shown
from disttrain.local.lines import resumed
from disttrain.local.snapshot import Snapshot, exit_words, verdict

LOG_LINES: Final = 15


@dataclass(frozen=True)
class FailedReplica:
    """Whose log explains the failure, and how it ends."""

    name: str
    log: Path
    last_lines: Sequence[str]


@dataclass(frozen=True)
class Ending:
    """A job that is over. `directory` is the job's, as shown; `resume` the command that goes on after a stop."""

    snapshot: Snapshot
    directory: str
    resume: str
    saved: tuple[int, str] | None = None
    """The newest checkpoint any replica told of: step and location."""
    failed: FailedReplica | None = None


def summary(ending: Ending) -> list[Text]:
    """One line each."""
    status = ending.snapshot.status
    outcome = verdict(status)
    if outcome is None:
        return [_stopped(ending), *_rows(ending, [*_restarts(status), ("go on", ending.resume)])]
    if outcome:
        return [_succeeded(ending), *_rows(ending, _figures(status))]
    return [_failed(ending), *_rows(ending, _figures(status)), *_why(ending.failed)]


def _succeeded(ending: Ending) -> Text:
    status = ending.snapshot.status
    progress = status.progress
    steps = f", {wording.counted(progress.step, 'step')}" if progress and progress.step is not None else ""
    text = Text.assemble((f"{ending.snapshot.job} succeeded", "bold green"))
    text.append(f" in {wording.duration(ending.snapshot.seconds)}{steps}")
    return text


def _failed(ending: Ending) -> Text:
    status = ending.snapshot.status
    condition = status.condition(names.FAILED)
    said = f": {condition.reason}: {condition.message}" if condition else ""
    text = Text.assemble((f"{ending.snapshot.job} failed", "bold red"))
    text.append(f" after {wording.duration(ending.snapshot.seconds)}{said}")
    return text


def _stopped(ending: Ending) -> Text:
    text = Text.assemble((f"{ending.snapshot.job} stopped", "bold yellow"))
    if ending.saved is None:
        text.append("; no checkpoint was saved, so it would begin from step 0")
    else:
        text.append(f"; saved step {ending.saved[0]} in {shown(Path(ending.saved[1]))}")
    return text


def _figures(status: JobStatus) -> list[tuple[str, str]]:
    """Name and value of what there is to tell."""
    rows: list[tuple[str, str]] = []
    model, evaluation, checkpoint = status.model, status.evaluation, status.checkpoint
    if model and model.metrics:
        rows.append(("result", wording.metrics(model.metrics)))
    if evaluation and evaluation.metrics:
        rows.append(("evaluation", f"{wording.metrics(evaluation.metrics)} (step {evaluation.step})"))
    rows += _restarts(status)
    if model and model.location:
        rows.append(("model", shown(Path(model.location))))
    if checkpoint and checkpoint.location:
        rows.append(("checkpoint", f"{shown(Path(checkpoint.location))} (step {checkpoint.step})"))
    return rows


def _restarts(status: JobStatus) -> list[tuple[str, str]]:
    """`1 (worker-1 SIGKILL), resumed from step 250 (40 steps repeated)`."""
    total = status.restarts + status.disruptions
    if not total:
        return []
    text = str(total)
    failure, resume = status.last_failure, status.last_resume
    if failure and failure.role is not None:
        how = exit_words(failure.exit_code) if failure.exit_code is not None else failure.reason
        text += f" ({'last ' if total > 1 else ''}{failure.role}-{failure.index} {how})"
    if resume and resume.from_step is not None:
        text += f", {resumed(resume.from_step, resume.lost_steps)}"
    return [("failures" if verdict(status) is False else "restarts", text)]


def _rows(ending: Ending, rows: Sequence[tuple[str, str]]) -> list[Text]:
    rows = [*rows, ("logs", f"{ending.directory}/logs")]
    width = max(len(name) for name, _ in rows)
    return [Text.assemble("  ", (f"{name:{width}}", "dim"), f"  {value}") for name, value in rows]


def _why(failed: FailedReplica | None) -> list[Text]:
    if failed is None:
        return []
    if not failed.last_lines:
        return [Text(f"{failed.name} printed nothing ({shown(failed.log)} is empty)")]
    lines = [Text(f"last lines of {failed.name} ({shown(failed.log)}):")]
    return lines + [Text.assemble(("  | ", "dim"), line) for line in failed.last_lines]
