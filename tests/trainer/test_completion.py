"""The DONE marker."""

from __future__ import annotations

import pytest

from disttrain_trainer import Result
from disttrain_trainer.completion import mark_done, read_done


def test_a_job_is_not_done_before_it_is_marked(tmp_path):
    assert read_done(tmp_path) is None


def test_a_job_without_storage_is_never_done():
    assert read_done(None) is None


def test_the_result_survives_in_the_marker(tmp_path):
    mark_done(tmp_path, Result(leader=True, step=600, metrics={"accuracy": 0.5}, model_location="/m"))
    assert read_done(tmp_path, leader=True) == Result(True, 600, {"accuracy": 0.5}, "/m")


def test_a_metric_that_is_not_a_number_survives(tmp_path):
    mark_done(tmp_path, Result(leader=True, step=1, metrics={"loss": float("inf")}))
    done = read_done(tmp_path)
    assert done is not None
    assert done.metrics == {"loss": float("inf")}


@pytest.mark.parametrize("content", ["", "[]", '{"time": ""}'])
def test_a_damaged_marker_still_says_that_training_is_over(tmp_path, content):
    (tmp_path / "DONE").write_text(content)
    assert read_done(tmp_path) == Result(leader=False, step=0)
