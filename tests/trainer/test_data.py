"""`batches_of`: the order of the data is a function of the step."""

from __future__ import annotations

import numpy as np
import pytest

from disttrain_trainer import DataContext, batches_of

ARRAYS = (np.arange(22, dtype="float32").reshape(22, 1), np.arange(22))


def labels(start: int = 0, total: int = 12, pipeline: int = 0, pipelines: int = 1, seed: int = 7) -> list[list[int]]:
    context = DataContext("train", 6, 6 // pipelines, pipeline, pipelines, start, total, seed)
    return [y.tolist() for _, y in batches_of(ARRAYS, context).as_numpy_iterator()]


@pytest.mark.parametrize("start", [1, 3, 4, 11, 12])
def test_a_resumed_run_sees_what_the_interrupted_one_would_have(start):
    assert labels(start) == labels()[start:]


def test_an_epoch_shows_no_example_twice():
    epoch = np.concatenate(labels(total=3))
    assert len(set(epoch.tolist())) == 18


def test_every_epoch_has_another_order():
    assert labels()[0:3] != labels()[3:6]


def test_another_seed_is_another_order():
    assert labels(seed=8) != labels(seed=7)


def test_the_pipelines_together_give_the_global_batch():
    parts = zip(labels(pipeline=0, pipelines=2), labels(pipeline=1, pipelines=2), strict=True)
    assert [first + second for first, second in parts] == labels()


def test_examples_stay_with_their_labels():
    context = DataContext("train", 6, 6, total_steps=12)
    for x, y in batches_of(ARRAYS, context).as_numpy_iterator():
        assert x[:, 0].tolist() == y.tolist()


def test_evaluation_sees_every_example_once_in_order():
    context = DataContext("eval", 6, 6, total_steps=12)
    seen = np.concatenate([y for _, y in batches_of(ARRAYS, context).as_numpy_iterator()])
    assert seen.tolist() == list(range(22))


def test_the_shape_of_a_batch_is_static():
    assert batches_of(ARRAYS, DataContext("train", 6, 3, total_steps=5)).element_spec[0].shape == (3, 1)


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="first dimension"):
        batches_of((np.zeros((3, 1)), np.zeros(4)), DataContext("train", 2, 2, total_steps=1))


def test_fewer_examples_than_a_global_batch_are_refused():
    with pytest.raises(ValueError, match="fewer than a global batch of 64"):
        batches_of(ARRAYS, DataContext("train", 64, 32, total_steps=1))
