"""The custom training loop of synchronous strategies: one process, Mirrored and MultiWorkerMirrored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from disttrain_trainer import reporting
from disttrain_trainer.errors import UsageError
from disttrain_trainer.training import Progress, Training, keep_alive


def run(training: Training) -> int:
    """Train until the last step, or until a worker is asked to stop; save.

    Returns the steps done, the same on all workers.
    """
    settings, stop = training.settings, training.stop
    refuse_own_train_step(training.model)
    reporting.phase("compiling")
    batches = keep_alive(iter(training.strategy.distribute_datasets_from_function(_replica_batches(training))))
    one_step = _global_step(training)
    progress = Progress(settings, training.job.leader)
    step = training.start_step
    while step < settings.steps:
        loss, stop_votes = one_step(next(batches), tf.constant(float(stop.requested))).numpy()
        step += 1
        progress.step(step, float(loss))
        if stop_votes:
            break
        training.checkpoints.save_if_due(step)
    training.checkpoints.save(step)
    return step


def refuse_own_train_step(model: Any) -> None:
    """Raise UsageError for a model with a training step of its own, which this loop would silently not call."""
    if type(model).train_step is not keras.Model.train_step:
        raise UsageError(
            f'train(mode="loop"): {type(model).__name__} overrides train_step, which only fit calls; use mode="fit", '
            "or put the computation into call and the loss"
        )


def replica_step(model: Any, batch: Any) -> Any:
    """One step of the optimizer on one replica's share of the batch; its share of the loss, a float32 scalar.

    Call within `strategy.run`. `compute_loss` divides by the number of replicas in sync (Keras 3 does so for every
    loss, regularisation included), so with shares of equal size the sum of all replicas' losses is the mean over the
    global batch, and the optimizer's sum of their gradients is the gradient of that mean.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
        scaled = model.optimizer.scale_loss(loss)
    variables = model.trainable_variables
    model.optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
    return tf.cast(loss, tf.float32)


def _global_step(training: Training) -> Callable[[Any, Any], Any]:
    """`(batch, stop vote) -> float32 [2]`: the loss over the global batch and the sum of the stop votes.

    Both travel in one all-reduce: every worker learns in the same step that one of them was asked to stop.
    """
    strategy, model = training.strategy, training.model

    def on_replica(batch: Any, vote: Any) -> Any:
        return tf.stack([replica_step(model, batch), vote])

    def one_step(batch: Any, vote: Any) -> Any:
        per_replica = strategy.run(on_replica, args=(batch, vote))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    # AutoGraph would cost a quarter of the tracing time; Keras does not convert models either.
    return one_step if training.settings.eager else tf.function(one_step, autograph=False, reduce_retracing=True)


def _replica_batches(training: Training) -> Callable[[Any], Any]:
    """From a `tf.distribute.InputContext`, a worker's dataset with a batch for each of its replicas in turn."""

    def dataset(context: Any) -> Any:
        pipelines = context.num_input_pipelines
        batches = training.dataset(pipeline=context.input_pipeline_id, pipelines=pipelines)
        if context.num_replicas_in_sync == pipelines:
            return batches
        share = training.settings.global_batch_size // context.num_replicas_in_sync
        return batches.rebatch(share, drop_remainder=True)

    return dataset
