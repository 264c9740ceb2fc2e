"""What a training process said of itself, as its agent passes it on: read leniently, bounded, never trusted.

The same JSON comes from `GET /v1/status` and as a container's termination message. Whoever runs code in a pod can write
anything into it, so every field is checked and a field that is not what it should be is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from disttrain.core.model import Report

_MAX_STEP: Final = 2**63 - 1
_MAX_ATTEMPT: Final = 2**31 - 1
_MAX_TEXT: Final = 1024
_MAX_NAME: Final = 128  # of a metric: the status' own bound
_MAX_METRICS: Final = 32
_MAX_PEERS: Final = 16
_MAX_JSON: Final = 16_384  # four times what Kubernetes keeps of a termination message


def report_from_status(data: Mapping[str, Any]) -> Report:
    """The agent's status JSON as a Report. Unknown and malformed parts are dropped; never raises."""
    progress = _mapping(data, "progress")
    checkpoint = _mapping(data, "checkpoint")
    evaluation = _mapping(data, "evaluation")
    model = _mapping(data, "model")
    return Report(
        step=_count(progress, "step"),
        total_steps=_count(progress, "totalSteps"),
        epoch=_count(progress, "epoch"),
        loss=_number(progress.get("loss")),
        steps_per_second=_number(progress.get("stepsPerSecond")),
        resumed_from=_count(data, "resumedFrom"),
        checkpoint_step=_count(checkpoint, "step"),
        checkpoint_location=_text(checkpoint, "location"),
        evaluation_step=_count(evaluation, "step"),
        evaluation_metrics=_metrics(evaluation),
        model_location=_text(model, "location"),
        metrics=_metrics(model),
        phase=_text(data, "phase"),
        waiting_for=_texts(data.get("waitingFor")),
        error=_text(data, "error"),
        time=parse_time(data.get("time")),
        attempt=_count(data, "attempt", _MAX_ATTEMPT),
    )


def report_from_message(message: str) -> Report | None:
    """The report in a termination message; None where the message is not an agent's."""
    if not message.startswith("{") or len(message) > _MAX_JSON:
        return None
    try:
        data = json.loads(message)
    except (ValueError, RecursionError):  # RecursionError: thousands of opening brackets
        return None
    return report_from_status(data) if isinstance(data, dict) and "version" in data else None


def parse_time(value: object) -> datetime | None:
    """An RFC 3339 time as an aware datetime in UTC; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):  # OverflowError: year 1 with an offset lies before the calendar
        return None


def printable(text: str, limit: int = _MAX_TEXT) -> str:
    """A text from outside in one line of at most `limit` characters, without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _count(data: Mapping[str, Any], key: str, limit: int = _MAX_STEP) -> int | None:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limit else None


def _number(value: object) -> float | None:
    """A float, also one sent as a string because JSON has no NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 64:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return (printable(value) or None) if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(printable(item, _MAX_NAME) for item in value[:_MAX_PEERS] if isinstance(item, str))


def _metrics(data: Mapping[str, Any]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, value in _mapping(data, "metrics").items():  # JSON keys are strings
        number = _number(value)
        if name.isprintable() and 0 < len(name) <= _MAX_NAME and number is not None:
            metrics[name] = number
        if len(metrics) == _MAX_METRICS:
            break
    return metrics
