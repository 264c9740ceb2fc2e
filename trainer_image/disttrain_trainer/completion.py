"""The DONE marker: what says, over restarts, that the job's training is complete. Imports no TensorFlow."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from disttrain_agent.contract import DONE_FILE
from disttrain_trainer import reporting


@dataclass(frozen=True)
class Result:
    """What `train` gives back.

    Attributes:
        leader: True in the process that saves and exports; print and publish there only.
        step: steps done.
        metrics: the held-out loss and compiled metrics by name; empty where not this process evaluated.
        model_location: directory of the exported SavedModel (with `model.keras` in it); None where none was exported.
        model: the trained Keras model with plain variables, in the leader only; None after a restart of a job that
            was complete already.
    """

    leader: bool
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    model_location: str | None = None
    model: Any = None


def mark_done(run_dir: Path, result: Result) -> None:
    """Write the marker, atomically and last of all: whoever sees it may rely on the checkpoint and the model."""
    marker = {
        "step": result.step,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "metrics": {name: reporting.finite(value) for name, value in result.metrics.items()},
        "model": result.model_location,
    }
    temporary = run_dir / f".{DONE_FILE}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(marker, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(run_dir / DONE_FILE)


def read_done(run_dir: Path | None, leader: bool = False) -> Result | None:
    """The result of a job that is complete already; None while it is not."""
    if run_dir is None:
        return None
    try:
        marker = json.loads((run_dir / DONE_FILE).read_text(encoding="utf-8"))
        metrics = {str(name): float(value) for name, value in (marker.get("metrics") or {}).items()}
        return Result(leader=leader, step=int(marker["step"]), metrics=metrics, model_location=marker.get("model"))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Somebody else's file, or a damaged one. What it says is in doubt, that it is there is not: train no further.
        reporting.say(f"{run_dir / DONE_FILE} is not as expected: {reporting.first_line(error)}")
        return Result(leader=leader, step=0)


def report_done(result: Result) -> None:
    """Tell the agent of a job that was complete before this process began."""
    reporting.say(f"this job is complete already at step {result.step}; nothing to do")
    if result.step:
        reporting.report(step=result.step, total_steps=result.step)
    if result.model_location:
        reporting.exported(result.model_location, result.metrics)
    reporting.flush()
