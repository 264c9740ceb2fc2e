"""What the training process said of itself: a pure fold of its report datagrams (`contract.EVENT_*`).

The sender is the user's program. Whatever it sends, the result is small and can be written as standard JSON: a
datagram that is too long, no JSON, or not of the contract is counted in `ignored` and changes nothing else.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Final, Mapping, Optional, Union

from disttrain_agent import contract

RATE_SECONDS: Final = 10.0  # the window of the exponential smoothing of steps per second
RATE_MIN_SECONDS: Final = 0.5  # of steps seen before a rate is told: two datagrams in one millisecond are no rate
MAX_STEP: Final = 2**53 - 1  # JSON numbers are exact up to here
MAX_TEXT: Final = 1024  # characters of an error or a location
MAX_NAME: Final = 64  # characters of a phase or of a metric's name
MAX_METRICS: Final = 32

Changes = Dict[str, Any]
"""Fields of Progress and their new values."""

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
Number = Union[float, str]
"""A finite float, or one of NOT_FINITE: standard JSON has no numbers for these, so they travel as strings."""


@dataclass(frozen=True)
class Rate:
    """Steps per second as (decayed steps) / (decayed seconds): right from the second report on, whatever its rhythm."""

    steps: float = 0.0
    seconds: float = 0.0
    last_step: Optional[int] = None
    last_time: float = 0.0

    def add(self, step: int, now: float) -> Rate:
        """`now` in seconds of a monotonic clock. A step that goes back (resume, second `fit`) starts anew."""
        if self.last_step is None or step < self.last_step:
            return Rate(last_step=step, last_time=now)
        elapsed = max(0.0, now - self.last_time)
        decay = math.exp(-elapsed / RATE_SECONDS)
        return Rate(self.steps * decay + step - self.last_step, self.seconds * decay + elapsed, step, now)

    def per_second(self) -> Optional[float]:
        """None until RATE_MIN_SECONDS of steps were seen."""
        return self.steps / self.seconds if self.seconds >= RATE_MIN_SECONDS else None


@dataclass(frozen=True)
class Progress:
    """Steps count optimizer steps of the whole job. None: never reported."""

    phase: Optional[str] = None
    step: Optional[int] = None
    total_steps: Optional[int] = None
    epoch: Optional[int] = None
    loss: Optional[Number] = None
    rate: Rate = Rate()
    resumed_from: Optional[int] = None
    checkpoint_step: Optional[int] = None
    checkpoint_location: Optional[str] = None
    evaluation_step: Optional[int] = None
    evaluation_metrics: Mapping[str, Number] = field(default_factory=dict)
    model_location: Optional[str] = None
    model_metrics: Mapping[str, Number] = field(default_factory=dict)
    error: Optional[str] = None
    finished: bool = False
    ignored: int = 0


def fold(progress: Progress, datagram: bytes, now: float) -> Progress:
    """Take one datagram received at `now` (seconds of a monotonic clock). Never raises on any bytes."""
    try:
        if len(datagram) > contract.REPORT_MAX_BYTES:
            raise ValueError(f"longer than {contract.REPORT_MAX_BYTES} bytes")
        message = json.loads(datagram)  # UnicodeDecodeError is a ValueError
        if not isinstance(message, dict):
            raise ValueError("not an object")
        changes = _READ[message["event"]](message)
    except (ValueError, KeyError, TypeError, RecursionError):
        # RecursionError: "[[[[..." nests deeper than the parser goes. TypeError: an event name that is a list.
        return replace(progress, ignored=progress.ignored + 1)
    if "step" in changes:
        rate = Rate() if "resumed_from" in changes else progress.rate
        changes["rate"] = rate.add(changes["step"], now)
    return replace(progress, **changes)


def number(value: object) -> Number:
    """A reported number in a form that standard JSON can carry. Raises ValueError for anything else."""
    if value in NOT_FINITE:
        return str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"not a number: {value!r}")
    try:
        real = float(value)
    except OverflowError:  # an integer beyond any float
        real = math.inf if value > 0 else -math.inf
    if math.isfinite(real):
        return real
    return "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity"


def text(value: object, limit: int = MAX_TEXT) -> str:
    """One line of valid Unicode without control characters. Raises ValueError unless it is a non-empty string."""
    if not isinstance(value, str):
        raise ValueError(f"not a string: {value!r}")
    # Looked at no further than could be shown: a report may be all line breaks, and there may be many reports.
    valid = value[: 4 * limit].encode("utf-8", "replace").decode("utf-8")
    if not valid.isprintable():
        valid = "".join(c if c.isprintable() else " " for c in valid)
    line = " ".join(valid.split())
    if not line:
        raise ValueError("empty")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _count(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_STEP:
        raise ValueError(f"not a count: {value!r}")
    return value


def _metrics(value: object) -> Dict[str, Number]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_METRICS:
        raise ValueError("metrics must be an object of at most %d numbers" % MAX_METRICS)
    return {text(name, MAX_NAME): number(metric) for name, metric in value.items()}


def _resumed(message: Mapping[str, Any]) -> Changes:
    step = _count(message["step"])
    return {"resumed_from": step, "step": step}


def _step(message: Mapping[str, Any]) -> Changes:
    changes: Changes = {"step": _count(message["step"])}
    for key, name in (("totalSteps", "total_steps"), ("epoch", "epoch")):
        if message.get(key) is not None:
            changes[name] = _count(message[key])
    if message.get("loss") is not None:
        changes["loss"] = number(message["loss"])
    return changes


def _saved(message: Mapping[str, Any]) -> Changes:
    return {"checkpoint_step": _count(message["step"]), "checkpoint_location": text(message["location"])}


def _evaluated(message: Mapping[str, Any]) -> Changes:
    return {"evaluation_step": _count(message["step"]), "evaluation_metrics": _metrics(message["metrics"])}


def _exported(message: Mapping[str, Any]) -> Changes:
    return {"model_location": text(message["location"]), "model_metrics": _metrics(message.get("metrics"))}


_READ: Final[Mapping[str, Callable[[Mapping[str, Any]], Changes]]] = {
    contract.EVENT_PHASE: lambda message: {"phase": text(message["phase"], MAX_NAME)},
    contract.EVENT_RESUMED: _resumed,
    contract.EVENT_STEP: _step,
    contract.EVENT_SAVED: _saved,
    contract.EVENT_EVALUATED: _evaluated,
    contract.EVENT_EXPORTED: _exported,
    contract.EVENT_ERROR: lambda message: {"error": text(message["message"])},
    contract.EVENT_FINISHED: lambda _: {"finished": True},
}
