"""A model that can be served: a SavedModel and a `.keras` file, complete or not there at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from disttrain_agent.contract import MODEL_DIR

KERAS_FILE: Final = "model.keras"


class ExportError(Exception):
    """The exported model does not do what the trained one does."""


def export(model: Any, run_dir: Path, example: Any = None) -> str:
    """Write `<run_dir>/model`: a SavedModel with the endpoint `serve`, and `model.keras` beside it in there.

    Both are written into a temporary directory next to it, loaded once, and then renamed, so whoever finds the
    directory finds a whole model. An older one is replaced.

    Args:
        model: a built Keras 3 model with plain variables.
        run_dir: the job's directory in storage.
        example: a batch of inputs, to compare the loaded SavedModel's outputs with the model's; None: only load it.

    Returns:
        The path of the directory.

    Raises:
        ExportError: the loaded SavedModel answers differently.
    """
    target = run_dir / MODEL_DIR
    temporary = run_dir / f".{MODEL_DIR}.{os.getpid()}"
    for leftover in run_dir.glob(f".{MODEL_DIR}.*"):
        shutil.rmtree(leftover)  # of an export that was cut off; only the leader exports
    model.export(str(temporary), format="tf_saved_model", verbose=False)
    model.save(str(temporary / KERAS_FILE))
    _try_out(model, temporary, example)
    if target.exists():
        replaced = run_dir / f".{MODEL_DIR}.replaced"
        target.rename(replaced)
        temporary.rename(target)
        shutil.rmtree(replaced)
    else:
        temporary.rename(target)
    return str(target)


def _try_out(model: Any, directory: Path, example: Any) -> None:
    loaded = tf.saved_model.load(str(directory))
    if example is None:
        return
    expected = tf.nest.flatten(model(example, training=False))
    answered = tf.nest.flatten(loaded.serve(example))
    pairs = zip(expected, answered, strict=True)
    if not all(np.allclose(want, got, rtol=1e-3, atol=1e-5, equal_nan=True) for want, got in pairs):
        raise ExportError(f"{directory}: the SavedModel, loaded again, gives other outputs than the trained model")
