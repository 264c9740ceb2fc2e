"""The training loop of a ParameterServer job: the chief schedules steps, the workers do them at their own pace.

A step is one batch of `global_batch_size` on one worker, as `num_replicas_in_sync` is 1 here. A worker that is lost
costs nothing but time: the coordinator gives its step to another. A lost parameter server ends the chief with
`UnavailableError`; both are started again and resume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import tensorflow as tf

from disttrain_trainer import reporting
from disttrain_trainer.loop import refuse_own_train_step, replica_step
from disttrain_trainer.training import Progress, Training

# Steps between two looks at the stop signal and the checkpoint policy, for each worker. More hide the time in which
# the fast workers wait for the slow; fewer answer a SIGTERM sooner.
STEPS_PER_WORKER: Final = 4


def run(training: Training) -> int:
    """Train until the last step, or until the chief is asked to stop; save; return the steps done."""
    settings, strategy = training.settings, training.strategy
    refuse_own_train_step(training.model)
    reporting.phase("compiling")
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    batches = iter(coordinator.create_per_worker_dataset(_worker_batches(training)))

    one_step = tf.function(_worker_step(training), autograph=False, reduce_retracing=True)
    progress = Progress(settings, training.job.leader)
    step = training.start_step
    while step < settings.steps and not training.stop.requested:
        losses = [coordinator.schedule(one_step, args=(batches,)) for _ in range(_round(training, step))]
        coordinator.join()
        step += len(losses)
        progress.step(step, float(losses[-1].fetch()))
        training.checkpoints.save_if_due(step)
    training.checkpoints.save(step)
    return step


def _worker_step(training: Training) -> Callable[[Any], Any]:
    """From a worker's iterator to the loss over its next batch, after one step of the optimizer on it."""
    strategy, model = training.strategy, training.model

    def on_replica(batch: Any) -> Any:
        return replica_step(model, batch)

    def one_step(batches: Any) -> Any:
        per_replica = strategy.run(on_replica, args=(next(batches),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    return one_step


def _round(training: Training, step: int) -> int:
    """How many steps to schedule at once from `step` on: no further than to the next save and the end."""
    left = training.settings.steps - step
    every = training.job.checkpoint.every_steps
    to_next_save = left if every is None else every - step % every
    return min(STEPS_PER_WORKER * training.job.workers, left, to_next_save)


def _worker_batches(training: Training) -> Callable[[], Any]:
    """A function that makes one worker's dataset, called anew for each worker and each time one comes back.

    The workers do not share an epoch. Each goes through all of the data in an order of its own, so none of it is
    missed when one is lost. TensorFlow does not tell a worker's dataset whose it is; taking a number from a counter on
    the parameter server (atomically: `ResourceCountUpTo`) gives each its own seed.
    """
    strategy, settings = training.strategy, training.settings
    with strategy.scope():
        taken = tf.Variable(0, dtype=tf.int64, trainable=False, name="datasets_made")

    def dataset() -> Any:
        number = tf.raw_ops.ResourceCountUpTo(resource=taken.handle, limit=tf.int64.max, T=tf.int64)

        def batches(context: Any) -> Any:
            made = training.dataset(
                seed=settings.seed + number,
                # Where each worker has come to if all are equally fast, and more than any of them can need.
                start_step=training.start_step // training.job.workers,
                total_steps=training.start_step + settings.steps,
            )
            if context.num_replicas_in_sync == 1:
                return made
            share = settings.global_batch_size // context.num_replicas_in_sync
            return made.rebatch(share, drop_remainder=True)

        return strategy.distribute_datasets_from_function(batches)

    # The coordinator makes a tf.function of it, which must not convert the program's own code, imports included.
    return cast("Callable[[], Any]", tf.autograph.experimental.do_not_convert(dataset))
