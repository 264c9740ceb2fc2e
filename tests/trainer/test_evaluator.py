"""The evaluator: every checkpoint once, until training is over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from disttrain_trainer import Result, evaluator
from disttrain_trainer.checkpoints import Checkpoints
from disttrain_trainer.completion import mark_done
from disttrain_trainer.context import Settings
from disttrain_trainer.job import CheckpointPolicy, JobEnvironment
from tests.trainer.tiny import X, Y, build_dataset, build_model

JOB = JobEnvironment(strategy="ParameterServer", role="evaluator", leader=False)


@pytest.fixture
def finished_job(tmp_path: Path) -> Path:
    """Storage of a job that saved at 10 and 20 and is done."""
    model = build_model()
    checkpoints = Checkpoints(tmp_path, CheckpointPolicy(10), model, leader=True)
    for step in (10, 20):
        model.train_on_batch(X, Y)
        checkpoints.save(step)
    mark_done(tmp_path, Result(leader=True, step=20))
    return tmp_path


def evaluate(run_dir: Path | None) -> Result:
    return evaluator.run(build_model, build_dataset, Settings(20, 8), replace(JOB, run_dir=run_dir))


def lines(run_dir: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run_dir / "evaluation.jsonl").read_text().splitlines()]


def test_every_checkpoint_is_evaluated_in_order(finished_job):
    evaluate(finished_job)
    assert lines(finished_job) == [10, 20]


def test_the_last_metrics_are_the_result(finished_job):
    result = evaluate(finished_job)
    assert (result.step, sorted(result.metrics)) == (20, ["accuracy", "loss"])


def test_a_restarted_evaluator_goes_on_where_it_was(finished_job):
    file = finished_job / "evaluation.jsonl"
    file.write_text('{"step": 10, "metrics": {"loss": "NaN"}}\n{"step": 2')  # it was killed while it wrote
    evaluate(finished_job)
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()[2:]] == [20]


def test_a_damaged_checkpoint_is_passed_over(finished_job):
    for path in (finished_job / "checkpoints").glob("ckpt-10.data*"):
        path.write_bytes(b"")
    evaluate(finished_job)
    assert lines(finished_job) == [20]


def test_without_storage_it_says_so_and_ends(capsys):
    assert evaluate(None) == Result(leader=False, step=0)
    assert "no storage (spec.storage)" in capsys.readouterr().err
