"""Training by Keras 3's own `fit`: one process, or Mirrored."""

from __future__ import annotations

from typing import Any

import keras

from disttrain_trainer import reporting
from disttrain_trainer.training import Progress, Training


def run(training: Training) -> int:
    """Train until the last step, or until asked to stop; save; return the steps done.

    The dataset starts at the step to resume from, so `fit` continues in the middle of an epoch as if it had never
    stopped. The logs of that epoch cover its remaining steps only.
    """
    settings, model = training.settings, training.model
    if training.start_step >= settings.steps:
        return training.start_step
    reporting.phase("compiling")
    model.run_eagerly = settings.eager
    steps = _StepHook(training)
    for first_epoch, epochs, steps_of_epoch in schedule(training.start_step, settings.steps, settings.steps_per_epoch):
        if training.stop.requested and steps.done > training.start_step:
            break
        model.fit(
            training.dataset(start_step=steps.done),  # Keras splits the batches over the replicas itself
            initial_epoch=first_epoch,
            epochs=first_epoch + epochs,
            steps_per_epoch=steps_of_epoch,
            callbacks=[steps.callback()],
            shuffle=False,
            verbose=0,
        )
    training.checkpoints.save(steps.done)
    return steps.done


def schedule(start: int, total: int, steps_per_epoch: int | None) -> list[tuple[int, int, int]]:
    """The calls of `fit` that lead from step `start` to step `total`: (first epoch from 0, epochs, steps of each).

    Every call has epochs of one length, so a cut first epoch, the whole ones and a cut last one are a call each.
    """
    length = steps_per_epoch or total
    calls = []
    if start % length and start < total:
        cut = min(length - start % length, total - start)
        calls.append((start // length, 1, cut))
        start += cut
    if whole := (total - start) // length:
        calls.append((start // length, whole, length))
        start += whole * length
    if start < total:
        calls.append((start // length, 1, total - start))
    return calls


class _StepHook:
    """Counts the steps of the job over all calls of `fit`; after each: report, save if due, stop if asked to."""

    def __init__(self, training: Training) -> None:
        self.done = training.start_step
        self._before_epoch = training.start_step
        self._training = training
        self._progress = Progress(training.settings, training.job.leader)

    def callback(self) -> Any:
        return keras.callbacks.LambdaCallback(
            on_epoch_begin=self._on_epoch_begin, on_train_batch_end=self._on_batch_end
        )

    def _on_epoch_begin(self, _epoch: int, _logs: dict[str, Any] | None = None) -> None:
        self._before_epoch = self.done

    def _on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Not simply one more: with `steps_per_execution` Keras calls this once for several steps.
        self.done = self._before_epoch + batch + 1
        self._progress.step(self.done, float((logs or {}).get("loss", float("nan"))))
        self._training.checkpoints.save_if_due(self.done)
        if self._training.stop.requested:
            self._training.model.stop_training = True
