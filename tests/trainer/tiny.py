"""A model and data so small that TensorFlow's start is all they cost."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from disttrain_trainer import DataContext, batches_of

X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int64")


def build_model(units: int = 3) -> Any:
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dropout(0.2, seed=1),
            keras.layers.Dense(2),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def build_dataset(context: DataContext) -> Any:
    return batches_of((X[:40], Y[:40]) if context.split == "train" else (X[40:], Y[40:]), context)


def state(model: Any) -> list[Any]:
    """Every value that training changes."""
    return [variable.numpy().tolist() for variable in (*model.variables, *model.optimizer.variables)]
