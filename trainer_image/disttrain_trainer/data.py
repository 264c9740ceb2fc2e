"""Datasets whose order is a function of the step, so that a resumed run sees what the interrupted one would have."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from disttrain_trainer.context import EVAL, DataContext


def batches_of(arrays: Any, context: DataContext) -> Any:
    """A tf.data.Dataset over arrays in memory, addressed by the step.

    Args:
        arrays: an array or a nest of arrays (tuple, dict) with a common first dimension, the examples, such as
            `(images [n, 64] float32, labels [n] int64)`. They become constants of the graph, which has room for 2 GB.
        context: what `build_dataset` was given.

    Returns:
        For "eval": every example once, in order, the last batch may be smaller. For "train": a batch of
        `context.batch_size` for each step from `context.start_step` to `context.total_steps`; every epoch is a new
        permutation (a function of seed and epoch) of which the last `n % global_batch_size` examples are left out.

    Raises:
        ValueError: the arrays differ in length, or are fewer than one global batch.
    """
    tensors = tf.nest.map_structure(tf.constant, arrays)
    lengths = {int(tensor.shape[0]) for tensor in tf.nest.flatten(tensors)}
    if len(lengths) != 1:
        raise ValueError(f"batches_of: the arrays differ in their first dimension: {sorted(lengths)}")
    examples = lengths.pop()
    if context.split == EVAL:
        return _untuned(tf.data.Dataset.from_tensor_slices(tensors).batch(context.batch_size))
    if examples < context.global_batch_size:
        raise ValueError(
            f"batches_of: {examples} examples are fewer than a global batch of {context.global_batch_size}"
        )
    return _training_batches(tensors, examples, context)


def _training_batches(tensors: Any, examples: int, context: DataContext) -> Any:
    steps_per_epoch = examples // context.global_batch_size
    offset = context.input_pipeline_id * context.batch_size
    seed = tf.cast(context.seed, tf.int64)
    # AutoGraph would cost a third of the start and change nothing: there is no Python control flow in these functions.
    as_it_is = tf.autograph.experimental.do_not_convert

    def epoch_batches(epoch: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(examples, dtype=tf.int64), seed=tf.stack([seed, epoch])
        )
        begin = tf.maximum(context.start_step - epoch * steps_per_epoch, 0)
        end = tf.minimum(context.total_steps - epoch * steps_per_epoch, steps_per_epoch)

        def batch_at(step_of_epoch: Any) -> Any:
            first = step_of_epoch * context.global_batch_size + offset
            picked = tf.slice(order, [first], [context.batch_size])
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, picked), tensors)

        return tf.data.Dataset.range(begin, end).map(as_it_is(batch_at))

    first_epoch = context.start_step // steps_per_epoch
    epochs = -(-context.total_steps // steps_per_epoch)
    return _untuned(tf.data.Dataset.range(first_epoch, epochs).flat_map(as_it_is(epoch_batches)).prefetch(2))


def _untuned(dataset: Any) -> Any:
    """Without tf.data's autotuning, for which nothing is left to choose here.

    Its thread may miss that the iterator is being deleted and sleep on, for up to a minute [TF 2.21], in which the
    process can neither evaluate nor end.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
