"""What the training processes said, put into the status: progress, checkpoint, model, evaluation, lastResume.

| from                                            | goes into                                                       |
|-------------------------------------------------|-----------------------------------------------------------------|
| the leader's report                             | progress, checkpoint, model                                     |
| the evaluator's report, else the leader's       | evaluation                                                      |
| the last word of a leader that is being         | progress, if it is further: so the steps a restart lost are     |
| replaced                                        | known                                                           |
| the leader's first report after a restart       | lastResume, once                                                |

Until lastResume of a restarted leader is written, its progress is not: it would hide how far the job had been.
A report never decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from disttrain import names
from disttrain.api.status import (
    CheckpointStatus,
    Evaluation,
    EvaluationMetric,
    JobStatus,
    LastResume,
    ModelStatus,
    Progress,
)
from disttrain.core.model import Pod, Report
from disttrain.core.transition import changed
from disttrain.core.view import Slot, View, role_of

_RESTART_OVER: Final = frozenset({names.REASON_RECOVERED, names.REASON_FINISHED})
"""Reasons of the condition Restarting once it is False."""


def reported(view: View, status: JobStatus) -> JobStatus:
    """The status with what is newly reported."""
    pod = view.current.get(view.leader)
    report = _report(view, view.leader, pod)
    parts: dict[str, Any] = {}
    if report is None:
        last_word = _last_word(view)
        if last_word is not None and (last_word.step or 0) >= _known_step(status):
            parts.update(_leader_parts(view, status, last_word))
    elif pod is not None and _resume_is_due(status, pod):
        resume = _resume(view, status, report)
        if resume is not None:
            parts.update(_leader_parts(view, status, report), last_resume=resume)
    else:
        parts.update(_leader_parts(view, status, report))
        if pod is not None and _replacement_runs(status, pod) and report.step is not None:
            parts["last_resume"] = LastResume(time=view.now, from_step=report.step, lost_steps=0)
    evaluator: Slot = (names.EVALUATOR, 0)
    evaluation = _evaluation(view, status, _report(view, evaluator, view.current.get(evaluator)), report)
    if evaluation is not None:
        parts["evaluation"] = evaluation
    return changed(status, **parts) if parts else status


# --- whose report ---


def _report(view: View, slot: Slot, pod: Pod | None) -> Report | None:
    """What the pod in a slot says now; not what its predecessor said, which may still lie around."""
    if pod is None:
        return None
    if pod.exit is not None:
        return pod.exit.report
    report = view.observed.reports.get(slot)
    return report if report is not None and report.attempt in (None, pod.attempt) else None


def _last_word(view: View) -> Report | None:
    """Of a leader's pod that is accounted for."""
    leaving = (pod for pod in view.doomed if (role_of(pod), pod.index) == view.leader)
    return _report(view, view.leader, next(leaving, None))


# --- lastResume ---


def _resume_is_due(status: JobStatus, leader: Pod) -> bool:
    """Whether this leader's process was started by a restart whose outcome is not written yet."""
    return leader.attempt == status.attempt and _unwritten_since(status) is not None


def _replacement_runs(status: JobStatus, leader: Pod) -> bool:
    """Whether others were restarted beside a leader that went on, and run again."""
    recovered = not status.is_true(names.RESTARTING)
    return leader.attempt < status.attempt and recovered and _unwritten_since(status) is not None


def _unwritten_since(status: JobStatus) -> datetime | None:
    """When the last restart (or resumption) began or was over, if lastResume is older than that."""
    if status.attempt <= 1:
        return None
    restarting, suspended = status.condition(names.RESTARTING), status.condition(names.SUSPENDED)
    times = []
    if restarting and (restarting.status == "True" or restarting.reason in _RESTART_OVER):
        times.append(restarting.last_transition_time)
    if suspended and suspended.status == "False":
        times.append(suspended.last_transition_time)
    since = max(times, default=None)
    written = status.last_resume.time if status.last_resume else None
    return since if since is not None and (written is None or written < since) else None


def _resume(view: View, status: JobStatus, report: Report) -> LastResume | None:
    """From where the restarted leader went on; None while it has not said so or not everybody is back.

    A program that reports steps but not where it resumed is taken at its first reported step.
    """
    if status.is_true(names.RESTARTING):
        return None
    begun = report.resumed_from if report.resumed_from is not None else report.step
    if begun is None:
        return None
    return LastResume(time=view.now, from_step=begun, lost_steps=max(0, _known_step(status) - begun))


def _known_step(status: JobStatus) -> int:
    return (status.progress.step if status.progress else None) or 0


# --- progress, checkpoint, model, evaluation ---


def _leader_parts(view: View, status: JobStatus, report: Report) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if report.step is not None:
        parts["progress"] = _progress(view, status, report)
    if report.checkpoint_step is not None:
        step, location = report.checkpoint_step, report.checkpoint_location
        saved = status.checkpoint
        if saved is None or (saved.step, saved.location) != (step, location):
            parts["checkpoint"] = CheckpointStatus(step=step, location=location, time=_said_at(view, report))
    if report.model_location is not None:
        parts["model"] = _model(view, status, report)
    return parts


def _progress(view: View, status: JobStatus, report: Report) -> Progress:
    before = status.progress or Progress()
    remaining = _remaining_seconds(report)
    fresh = Progress(
        step=report.step,
        total_steps=report.total_steps,
        epoch=report.epoch,
        loss=None if report.loss is None else plain(report.loss),
        steps_per_second=None if report.steps_per_second is None else plain(report.steps_per_second),
        estimated_remaining_seconds=remaining,
        time=before.time,
        summary=_summary(report, remaining),
    )
    if fresh == before:
        return before
    return fresh.model_copy(update={"time": _said_at(view, report)})


def _model(view: View, status: JobStatus, report: Report) -> ModelStatus:
    before = status.model or ModelStatus()
    fresh = ModelStatus(location=report.model_location, time=before.time, metrics=_metrics(report.metrics))
    return before if fresh == before else fresh.model_copy(update={"time": _said_at(view, report)})


def _evaluation(view: View, status: JobStatus, *reports: Report | None) -> Evaluation | None:
    """The evaluation of the first report that has one, if it is news."""
    report = next((report for report in reports if report is not None and report.evaluation_step is not None), None)
    if report is None:
        return None
    before = status.evaluation or Evaluation()
    fresh = Evaluation(step=report.evaluation_step, time=before.time, metrics=_metrics(report.evaluation_metrics))
    return None if fresh == before else fresh.model_copy(update={"time": _said_at(view, report)})


def _said_at(view: View, report: Report) -> datetime:
    """The report's own time, to whole seconds as a status has it; ours where it has none or a clock is ahead."""
    at = report.time if report.time is not None and report.time < view.now else view.now
    return at.replace(microsecond=0)


def _metrics(metrics: Mapping[str, float]) -> tuple[EvaluationMetric, ...]:
    return tuple(EvaluationMetric(name=name, value=plain(metrics[name])) for name in sorted(metrics))


# --- words ---


def plain(number: float) -> str:
    """A number as a status shows it: four significant digits; NaN and infinities by their names."""
    if math.isfinite(number):
        return f"{number:.0f}" if 10_000 <= abs(number) < 1e15 else f"{number:.4g}"
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _remaining_seconds(report: Report) -> int | None:
    rate = report.steps_per_second
    if report.step is None or report.total_steps is None or rate is None or not math.isfinite(rate) or rate <= 0:
        return None
    remaining = max(0, report.total_steps - report.step) / rate
    return int(remaining) if remaining < 2**31 else None


def _summary(report: Report, remaining: int | None) -> str:
    parts = [f"{report.step}/{report.total_steps}" if report.total_steps is not None else f"step {report.step}"]
    if report.loss is not None:
        parts.append(f"loss {plain(report.loss)}")
    if remaining:
        parts.append(f"ETA {duration(remaining)}")
    return " ".join(parts)


def duration(seconds: int) -> str:
    """A time span in its two largest units: `45s`, `5m`, `2h5m`, `3d4h`."""
    if seconds < 60:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if hours < 1:
        return f"{minutes}m"
    if days < 1:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
