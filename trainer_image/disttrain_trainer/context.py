"""What a program asks of `train`, and what its `build_dataset` is told. Pure; imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from disttrain_agent.cluster import MIRRORED, MULTI_WORKER_MIRRORED, PARAMETER_SERVER
from disttrain_trainer.errors import UsageError

Mode = Literal["loop", "fit"]
Split = Literal["train", "eval"]
TRAIN: Final = "train"
EVAL: Final = "eval"

# TensorFlow and Keras ship no types, so a keras.Model and a tf.data.Dataset are `Any` to us.
BuildModel = Callable[[], Any]
BuildDataset = Callable[["DataContext"], Any]


@dataclass(frozen=True)
class DataContext:
    """Which part of the data one input pipeline must give.

    For `split == "train"` the dataset must yield exactly the batches of the steps `start_step + 1 .. total_steps`, each
    of `batch_size` examples, in an order that is a function of the step alone: then a resumed run trains on what the
    interrupted one would have. For `split == "eval"` it yields every held-out example once.

    Attributes:
        split: "train" or "eval".
        global_batch_size: examples that one step trains on, over all pipelines.
        batch_size: examples of a batch of this pipeline, `global_batch_size / num_input_pipelines`.
        input_pipeline_id: which pipeline this is, from 0.
        num_input_pipelines: pipelines that share a step: the workers under MultiWorkerMirrored, else 1.
        start_step: steps already done.
        total_steps: steps after which training is complete.
        seed: for shuffling. An int; under ParameterServer a scalar int64 tensor, another one in each worker, because
            there every worker goes through all of the data at its own pace.
    """

    split: Split
    global_batch_size: int
    batch_size: int
    input_pipeline_id: int = 0
    num_input_pipelines: int = 1
    start_step: int = 0
    total_steps: int = 0
    seed: Any = 0


@dataclass(frozen=True)
class Settings:
    """The arguments of `train` that are plain values. Raises UsageError naming the argument."""

    steps: int
    global_batch_size: int
    mode: Mode = "loop"
    eager: bool = False
    seed: int = 0
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "global_batch_size", "steps_per_epoch"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"train({name}=...): must be a whole number from 1, not {value!r}")
        if self.mode not in ("loop", "fit"):
            raise UsageError(f'train(mode=...): must be "loop" or "fit", not {self.mode!r}')

    def refuse_impossible(self, strategy: str | None) -> None:
        """Raise UsageError for what TensorFlow cannot do under this strategy, with the way out.

        Keras 3's fit fails under MultiWorkerMirrored with two or more workers (keras-team/keras#20585) and under
        ParameterServer, where it cannot take a dataset; closures of the ClusterCoordinator run as graphs only.
        """
        if self.mode == "fit" and strategy in (MULTI_WORKER_MIRRORED, PARAMETER_SERVER):
            raise UsageError(
                f'train(mode="fit"): Keras 3\'s fit does not work under {strategy}; use mode="loop", '
                f"or the strategy {MIRRORED}"
            )
        if self.eager and strategy == PARAMETER_SERVER:
            raise UsageError(
                f"train(eager=True): not possible under {PARAMETER_SERVER}, which sends its steps to the workers as "
                f"graphs; leave eager out, or debug under {MIRRORED}"
            )

    def per_pipeline_batch(self, pipelines: int, replicas: int) -> int:
        """Examples of a pipeline's batch when `replicas` devices share the global batch evenly."""
        if self.global_batch_size % replicas:
            lower = self.global_batch_size // replicas * replicas
            nearest = f"{lower} or {lower + replicas}" if lower else str(replicas)
            raise UsageError(
                f"train(global_batch_size={self.global_batch_size}): cannot be split evenly over {replicas} replicas; "
                f"use {nearest}"
            )
        return self.global_batch_size // pipelines

    def epoch(self, step: int) -> int | None:
        """The epoch, from 1, that the step `step` (from 1) belongs to; None where no epoch is defined."""
        return None if self.steps_per_epoch is None else (max(step, 1) - 1) // self.steps_per_epoch + 1
