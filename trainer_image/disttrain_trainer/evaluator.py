"""The evaluator: a side process that evaluates each new checkpoint and never decides about the job."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from disttrain_agent.contract import CHECKPOINT_DIR, EVALUATION_FILE, EXIT_SAVED
from disttrain_trainer import reporting
from disttrain_trainer.checkpoints import UNREADABLE, complete_steps, load_weights, prefix_of
from disttrain_trainer.completion import Result, read_done
from disttrain_trainer.context import BuildDataset, BuildModel, Settings
from disttrain_trainer.evaluation import evaluate, held_out, plain_model
from disttrain_trainer.job import JobEnvironment
from disttrain_trainer.stopping import StopSignal

POLL_SECONDS: Final = 1.0


def run(build_model: BuildModel, build_dataset: BuildDataset, settings: Settings, job: JobEnvironment) -> Result:
    """Evaluate every checkpoint until training is complete and the last one is evaluated; return the last metrics.

    Metrics go to `evaluation.jsonl` in the job's directory, one line a checkpoint, and to the agent. Steps that are in
    the file already are not evaluated again. On SIGTERM the process exits with 42: it continues where it was.
    """
    if job.run_dir is None:
        reporting.say(
            "the job has no storage (spec.storage), so there is no checkpoint to evaluate; the evaluator ends"
        )
        return Result(leader=False, step=0)
    with StopSignal() as stop:
        evaluator = _Evaluator(build_model, build_dataset, settings, job.run_dir)
        while True:
            complete = read_done(job.run_dir) is not None  # asked first: a checkpoint is never newer than the marker
            evaluator.evaluate_new(stop)
            if complete:
                return evaluator.last
            if stop.requested:
                raise SystemExit(EXIT_SAVED)
            time.sleep(POLL_SECONDS)


def evaluated_steps(file: Path) -> dict[int, Mapping[str, float]]:
    """Step -> metrics of the lines in `evaluation.jsonl`; a line cut off by a kill is left out."""
    found: dict[int, Mapping[str, float]] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in lines:
        try:
            entry = json.loads(line)
            found[int(entry["step"])] = {name: float(value) for name, value in entry["metrics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            reporting.say(f"{file}: a broken line is left out: {line[:80]!r}")
    return found


class _Evaluator:
    def __init__(self, build_model: BuildModel, build_dataset: BuildDataset, settings: Settings, run_dir: Path) -> None:
        self._checkpoints = run_dir / CHECKPOINT_DIR
        self._file = run_dir / EVALUATION_FILE
        self._model: Any = plain_model(build_model)
        self._dataset = held_out(build_dataset, settings)
        self._seen = evaluated_steps(self._file)
        self.last = Result(leader=False, step=0)
        if self._seen:
            newest = max(self._seen)
            self.last = Result(leader=False, step=newest, metrics=self._seen[newest])

    def evaluate_new(self, stop: StopSignal) -> None:
        for step in complete_steps(self._checkpoints):
            if step not in self._seen and not stop.requested:
                self._evaluate(step)

    def _evaluate(self, step: int) -> None:
        reporting.phase("evaluating")
        try:
            load_weights(self._model, prefix_of(self._checkpoints, step))
        except UNREADABLE as error:
            # Rotated away since it was listed, or damaged: the leader says so if it ever needs it.
            reporting.say(f"the checkpoint of step {step} cannot be read: {reporting.first_line(error)}")
            self._seen[step] = {}
            return
        metrics = evaluate(self._model, self._dataset)
        self._seen[step] = metrics
        self.last = Result(leader=False, step=step, metrics=metrics)
        self._write(step, metrics)
        reporting.evaluated(step, metrics)
        reporting.say(f"step {step}: " + " ".join(f"{name} {value:.4f}" for name, value in metrics.items()))

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        entry = {
            "step": step,
            "metrics": {name: reporting.finite(value) for name, value in metrics.items()},
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        cut_off = self._file.exists() and not self._file.read_bytes().endswith(b"\n")
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n" * cut_off + json.dumps(entry) + "\n")
