"""Checkpoints: what is kept, what is restored, and what happens when one is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from disttrain_trainer.checkpoints import CheckpointNotSeenError, Checkpoints, steps_in
from disttrain_trainer.errors import UsageError
from disttrain_trainer.job import CheckpointPolicy
from tests.trainer.tiny import X, Y, build_model, state

POLICY = CheckpointPolicy(every_steps=10, every_seconds=None, keep=2)


def trained(directory: Path, *steps: int, policy: CheckpointPolicy = POLICY) -> tuple[Any, dict[int, list[Any]]]:
    """A model saved after each of `steps`, and its state at each save."""
    model = build_model()
    checkpoints = Checkpoints(directory, policy, model, leader=True)
    states = {}
    for step in steps:
        model.train_on_batch(X, Y)
        checkpoints.save(step)
        states[step] = state(model)
    return model, states


def restored(directory: Path, policy: CheckpointPolicy = POLICY, units: int = 3) -> tuple[int, list[Any]]:
    model = build_model(units)
    step = Checkpoints(directory, policy, model, leader=True).restore()
    return step, state(model)


def damage(directory: Path, step: int, keep_bytes: int) -> None:
    for path in (directory / "checkpoints").glob(f"ckpt-{step}.data*"):
        path.write_bytes(path.read_bytes()[:keep_bytes])


def test_everything_that_training_changes_is_restored(tmp_path):
    _, states = trained(tmp_path, 10, 20)
    assert restored(tmp_path) == (20, states[20])


def test_without_a_checkpoint_training_begins_at_0(tmp_path):
    assert restored(tmp_path)[0] == 0


def test_without_storage_nothing_is_saved(tmp_path):
    checkpoints = Checkpoints(None, POLICY, build_model(), leader=True)
    checkpoints.save(10)
    assert checkpoints.restore() == 0


def test_only_the_leader_writes(tmp_path):
    Checkpoints(tmp_path, POLICY, build_model(), leader=False).save(10)
    assert steps_in(tmp_path / "checkpoints") == []


def test_as_many_as_asked_for_are_kept(tmp_path):
    trained(tmp_path, 10, 20, 30)
    assert steps_in(tmp_path / "checkpoints") == [30, 20]


def test_saves_come_when_the_policy_says_so(tmp_path):
    checkpoints = Checkpoints(tmp_path, CheckpointPolicy(10, None, keep=9), build_model(), leader=True)
    for step in range(1, 26):
        checkpoints.save_if_due(step)
    assert steps_in(tmp_path / "checkpoints") == [20, 10]


@pytest.mark.parametrize("keep_bytes", [0, 50])
def test_a_damaged_newest_checkpoint_falls_back_to_the_previous_one(tmp_path, capsys, keep_bytes):
    _, states = trained(tmp_path, 10, 20)
    damage(tmp_path, 20, keep_bytes)
    assert restored(tmp_path) == (10, states[10])
    assert "falling back to the checkpoint of step 10" in capsys.readouterr().err


def test_a_damaged_index_falls_back_too(tmp_path):
    trained(tmp_path, 10, 20)
    (tmp_path / "checkpoints" / "ckpt-20.index").write_bytes(b"")
    assert restored(tmp_path)[0] == 10


def test_if_none_can_be_read_nothing_is_overwritten(tmp_path):
    trained(tmp_path, 10, 20)
    damage(tmp_path, 10, 0)
    damage(tmp_path, 20, 0)
    with pytest.raises(UsageError, match="none of its 2 checkpoints can be read"):
        restored(tmp_path)


def test_a_model_that_changed_is_refused_and_not_mistaken_for_damage(tmp_path):
    trained(tmp_path, 10, 20)
    with pytest.raises(UsageError, match="the model is not the one saved"):
        restored(tmp_path, units=5)


def test_training_that_fell_back_goes_on_past_the_damaged_checkpoint(tmp_path):
    trained(tmp_path, 10, 20)
    damage(tmp_path, 20, 0)
    model = build_model()
    checkpoints = Checkpoints(tmp_path, POLICY, model, leader=True)
    checkpoints.restore()
    checkpoints.save(20)
    assert restored(tmp_path) == (20, state(model))


@pytest.mark.parametrize("below", ["", "checkpoints"])
def test_another_jobs_checkpoint_is_resumed_on_request(tmp_path, below):
    _, states = trained(tmp_path / "old", 10)
    policy = CheckpointPolicy(10, None, restore_from=tmp_path / "old" / below)
    assert restored(tmp_path / "new", policy) == (10, states[10])


def test_a_jobs_own_checkpoint_goes_before_another_jobs(tmp_path):
    trained(tmp_path / "old", 30)
    trained(tmp_path / "new", 10)
    assert restored(tmp_path / "new", CheckpointPolicy(10, None, restore_from=tmp_path / "old"))[0] == 10


def test_restore_from_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"spec\.checkpoint\.restoreFrom: no checkpoint"):
        restored(tmp_path, CheckpointPolicy(10, None, restore_from=tmp_path / "absent"))


def test_a_worker_that_cannot_see_the_leaders_checkpoint_says_what_is_wrong(tmp_path):
    trained(tmp_path, 10)
    with pytest.raises(CheckpointNotSeenError, match="one volume that every worker mounts"):
        Checkpoints(tmp_path, POLICY, build_model(), leader=False).restore_step(20)


def test_a_worker_loads_what_the_leader_chose_though_there_is_a_newer_one(tmp_path):
    _, states = trained(tmp_path, 10, 20)
    model = build_model()
    Checkpoints(tmp_path, POLICY, model, leader=False).restore_step(10)
    assert state(model) == states[10]


def test_what_a_killed_save_left_is_removed(tmp_path):
    (tmp_path / "checkpoints" / "ckpt-10_temp").mkdir(parents=True)
    trained(tmp_path, 20)
    assert not list((tmp_path / "checkpoints").glob("*_temp"))
