"""What every way of training shares: the model under its strategy, its data, its checkpoints, its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from disttrain_trainer import reporting
from disttrain_trainer.checkpoints import Checkpoints
from disttrain_trainer.context import TRAIN, BuildDataset, DataContext, Settings
from disttrain_trainer.job import JobEnvironment
from disttrain_trainer.stopping import StopSignal

LOG_INTERVAL_SECONDS: Final = 10.0
_ALIVE: Final[list[Any]] = []


@dataclass(frozen=True)
class Training:
    """One process's part of a training run, ready to do step `start_step + 1`."""

    job: JobEnvironment
    settings: Settings
    strategy: Any
    model: Any
    build_dataset: BuildDataset
    checkpoints: Checkpoints
    stop: StopSignal
    start_step: int

    def dataset(self, *, pipeline: int = 0, pipelines: int = 1, **other: Any) -> Any:
        """The training dataset of one input pipeline; `other` overrides what its context says by default."""
        batch = self.settings.per_pipeline_batch(pipelines, self.strategy.num_replicas_in_sync)
        values: dict[str, Any] = {
            "split": TRAIN,
            "global_batch_size": self.settings.global_batch_size,
            "batch_size": batch,
            "input_pipeline_id": pipeline,
            "num_input_pipelines": pipelines,
            "start_step": self.start_step,
            "total_steps": self.settings.steps,
            "seed": self.settings.seed,
        }
        return self.build_dataset(DataContext(**(values | other)))


def keep_alive(iterator: Any) -> Any:
    """Never delete this iterator: with autotuning on, which is tf.data's default, that can take a minute.

    The leader would not export, and nobody end, before that (see `data._untuned`). The exit frees it.
    """
    _ALIVE.append(iterator)
    return iterator


class Progress:
    """Reports each step to the agent and, now and then, prints a line on the leader."""

    def __init__(self, settings: Settings, leader: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._leader = leader
        self._clock = clock
        self._log_at: float | None = None

    def step(self, step: int, loss: float) -> None:
        """Steps done and the last one's loss over the global batch."""
        total, epoch = self._settings.steps, self._settings.epoch(step)
        if self._log_at is None:
            reporting.phase("training")  # the first step is over, and with it all tracing
            self._log_at = self._clock() + LOG_INTERVAL_SECONDS
        reporting.report(step=step, total_steps=total, epoch=epoch, loss=loss)
        if self._leader and self._clock() >= self._log_at:
            self._log_at = self._clock() + LOG_INTERVAL_SECONDS
            reporting.say(f"step {step}/{total} loss {loss:.4f}")
