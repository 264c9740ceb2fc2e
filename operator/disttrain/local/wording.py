"""Numbers, durations and names as a person reads them."""

from __future__ import annotations

import math
from datetime import datetime

from disttrain.api.status import EvaluationMetric


def duration(seconds: float) -> str:
    """`8 s`, `1 min 12 s`, `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock(seconds: float) -> str:
    """`0:08`, `1:12`, `2:05:00`: for a column that must not jump."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def number(value: float) -> str:
    """Four significant digits: `0.1131`, `12.5`, `NaN`, `1.2e-05`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return f"{value:.4g}"


def metric(one: EvaluationMetric) -> str:
    """`accuracy 0.9639`; a value that is no number stands as it is."""
    try:
        return f"{one.name} {number(float(one.value))}"
    except ValueError:
        return f"{one.name} {one.value}"


def metrics(several: tuple[EvaluationMetric, ...]) -> str:
    """`accuracy 0.9639, loss 0.1131`."""
    return ", ".join(metric(one) for one in several)


def counted(count: int, noun: str) -> str:
    """`1 restart`, `2 restarts`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def time_of_day(time: datetime) -> str:
    """Local wall-clock time, `12:00:01`."""
    return time.astimezone().strftime("%H:%M:%S")
