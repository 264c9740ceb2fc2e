"""What `train` refuses before TensorFlow is even imported, and the arithmetic of steps, epochs and batches."""

from __future__ import annotations

import pytest

from disttrain_trainer.context import Settings
from disttrain_trainer.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"global_batch_size": -1}, "global_batch_size"),
        ({"steps_per_epoch": 0}, "steps_per_epoch"),
        ({"mode": "fitt"}, "mode"),
    ],
)
def test_a_wrong_argument_is_named(arguments, named):
    with pytest.raises(UsageError, match=named):
        Settings(**({"steps": 10, "global_batch_size": 8} | arguments))


@pytest.mark.parametrize("strategy", ["MultiWorkerMirrored", "ParameterServer"])
def test_fit_is_refused_with_the_way_out(strategy):
    with pytest.raises(UsageError, match='use mode="loop"'):
        Settings(10, 8, mode="fit").refuse_impossible(strategy)


@pytest.mark.parametrize("strategy", ["Mirrored", None])
def test_fit_is_accepted_in_one_process(strategy):
    Settings(10, 8, mode="fit").refuse_impossible(strategy)


def test_eager_is_refused_under_parameter_server():
    with pytest.raises(UsageError, match="graphs"):
        Settings(10, 8, eager=True).refuse_impossible("ParameterServer")


def test_a_batch_that_cannot_be_split_names_the_nearest_that_can():
    with pytest.raises(UsageError, match="use 63 or 66"):
        Settings(10, 64).per_pipeline_batch(pipelines=3, replicas=3)


def test_a_pipeline_feeds_all_replicas_of_its_worker():
    assert Settings(10, 64).per_pipeline_batch(pipelines=2, replicas=4) == 32


@pytest.mark.parametrize(("step", "epoch"), [(0, 1), (1, 1), (10, 1), (11, 2)])
def test_epochs_count_from_1(step, epoch):
    assert Settings(100, 8, steps_per_epoch=10).epoch(step) == epoch


def test_without_steps_per_epoch_there_is_no_epoch():
    assert Settings(100, 8).epoch(5) is None
