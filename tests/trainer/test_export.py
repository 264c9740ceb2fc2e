"""The exported model: whole or not there, and the same as the trained one."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from disttrain_trainer import export as export_module
from disttrain_trainer.export import ExportError, export
from tests.trainer.tiny import X, build_model


def test_the_saved_model_predicts_what_the_trained_one_does(tmp_path):
    model = build_model()
    location = export(model, tmp_path, X[:5])
    loaded = tf.saved_model.load(location)
    np.testing.assert_allclose(loaded.serve(X), model(X), rtol=1e-5)


def test_the_keras_file_beside_it_is_the_model_too(tmp_path):
    model = build_model()
    location = export(model, tmp_path)
    loaded = keras.models.load_model(f"{location}/model.keras")
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])


def test_an_older_model_is_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    export(build_model(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert not (tmp_path / "model" / "old").exists()


def test_what_a_killed_export_left_is_removed(tmp_path):
    (tmp_path / ".model.123").mkdir()
    export(build_model(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_that_answers_differently_once_loaded_is_not_published(tmp_path, monkeypatch):
    class Other:
        def serve(self, inputs):
            return tf.zeros((len(inputs), 2))

    monkeypatch.setattr(export_module.tf.saved_model, "load", lambda path: Other())
    with pytest.raises(ExportError, match="other outputs"):
        export(build_model(), tmp_path, X)
    assert not (tmp_path / "model").exists()
