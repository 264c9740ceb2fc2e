"""Held-out metrics, computed on one host with plain variables, whatever strategy trained the model."""

from __future__ import annotations

from typing import Any

from disttrain_trainer.context import EVAL, BuildDataset, BuildModel, DataContext, Settings


def plain_model(build_model: BuildModel) -> Any:
    """Build the model outside of any strategy, optimizer included.

    Its variables live on this host and belong to nobody else, so evaluating and exporting it needs no other process
    and leaves no device of the cluster in the SavedModel.
    """
    model = build_model()
    model.optimizer.build(model.trainable_variables)
    return model


def plain_copy(build_model: BuildModel, trained: Any) -> Any:
    """A plain model with the weights, the random state and the optimizer state of the trained one."""
    model = plain_model(build_model)
    pairs = [*zip(model.variables, trained.variables, strict=True)]
    pairs += zip(model.optimizer.variables, trained.optimizer.variables, strict=True)
    for target, source in pairs:
        target.assign(source.numpy())
    return model


def held_out(build_dataset: BuildDataset, settings: Settings) -> Any:
    """The dataset of the "eval" split, or None where the program has none."""
    batch = settings.global_batch_size
    return build_dataset(
        DataContext(
            split=EVAL, global_batch_size=batch, batch_size=batch, total_steps=settings.steps, seed=settings.seed
        )
    )


def evaluate(model: Any, dataset: Any) -> dict[str, float]:
    """The compiled loss and metrics over the dataset, by name; empty without a dataset."""
    if dataset is None:
        return {}
    metrics = model.evaluate(dataset, verbose=0, return_dict=True)
    return {str(name): float(value) for name, value in metrics.items()}
