"""What is worth a line."""

from __future__ import annotations

import pytest

from disttrain.core.model import Event
from disttrain.local.lines import changes, progress, resumed
from tests.local.jobs import NOW, replica, snapshot, status
from tests.local.jobs import progress as progress_of


def told(before, after, *events: Event) -> list[str]:
    return [line.text for line in changes(before, after, events)]


def test_a_replica_that_gets_further_is_told() -> None:
    before, after = snapshot(replica("worker-0", "starting")), snapshot(replica("worker-0", "running"))
    assert told(before, after) == ["worker-0 running"]


def test_nothing_new_is_nothing_told() -> None:
    same = snapshot(replica("worker-0", "running"))
    assert told(same, same) == []


def test_phases_that_come_and_go_are_not_told() -> None:
    before = snapshot(replica("worker-0", "training", milestone="running"))
    after = snapshot(replica("worker-0", "saving", milestone="running"))
    assert told(before, after) == []


def test_a_new_attempt_is_told_even_in_the_same_state() -> None:
    before, after = snapshot(replica("worker-0", "starting")), snapshot(replica("worker-0", "starting", attempt=2))
    assert told(before, after) == ["worker-0 starting again (attempt 2)"]


@pytest.mark.parametrize("state", ["pending", "stopping", "stopped"])
def test_replicas_that_make_way_are_not_told(state: str) -> None:
    assert told(snapshot(replica("worker-0", "running")), snapshot(replica("worker-0", state))) == []


def test_at_the_end_stopped_replicas_are_told() -> None:
    after = snapshot(replica("ps-0", "stopped"), status=status(completion_time=NOW))
    assert told(snapshot(replica("ps-0", "running")), after) == ["ps-0 stopped"]


def test_many_replicas_alike_are_one_line() -> None:
    after = snapshot(*(replica(f"worker-{index}", "running") for index in range(100)))
    assert told(None, after) == ["100 replicas running: worker-0 to worker-99"]


def test_warnings_of_the_core_are_told_and_marked() -> None:
    event = Event("Warning", "RoleFailed", "worker-1 exited")
    [line] = changes(None, snapshot(), [event])
    assert (line.text, line.warning) == ("worker-1 exited", True)


def test_the_cores_bookkeeping_is_not_told() -> None:
    assert told(None, snapshot(), Event("Normal", "PodsCreated", "made 3 pods")) == []


def test_a_resume_is_told_once() -> None:
    resume = status(last_resume={"time": NOW, "from_step": 250, "lost_steps": 40})
    after = snapshot(status=resume)
    assert told(snapshot(), after) == ["resumed from step 250 (40 steps repeated)"]
    assert told(after, after) == []


@pytest.mark.parametrize(
    ("step", "lost", "words"),
    [
        (250, 40, "resumed from step 250 (40 steps repeated)"),
        (250, 1, "resumed from step 250 (1 step repeated)"),
        (250, 0, "resumed from step 250"),
        (0, 12, "started again from step 0 (12 steps repeated)"),
        (0, None, "started again from step 0"),
    ],
)
def test_how_a_resume_is_worded(step: int, lost: int | None, words: str) -> None:
    assert resumed(step, lost) == words


def test_an_evaluation_is_told_with_its_metrics() -> None:
    evaluation = {"step": 300, "metrics": [{"name": "accuracy", "value": "0.96388"}, {"name": "loss", "value": "nan"}]}
    after = snapshot(status=status(evaluation=evaluation))
    assert told(snapshot(), after) == ["evaluation of step 300: accuracy 0.9639, loss NaN"]


def test_the_exported_model_is_told() -> None:
    after = snapshot(status=status(model={"location": "/runs/a/model"}))
    assert told(snapshot(), after) == ["model exported to /runs/a/model"]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (progress_of(), "step 350/600 (58 %)  loss 0.1131  12.5 steps/s  ETA 0:20"),
        (progress_of(loss="nan"), "step 350/600 (58 %)  loss NaN  12.5 steps/s  ETA 0:20"),
        (progress_of(estimated_remaining_seconds=7500), "step 350/600 (58 %)  loss 0.1131  12.5 steps/s  ETA 2:05:00"),
        (progress_of(total=None, estimated_remaining_seconds=None), "step 350  loss 0.1131  12.5 steps/s"),
        (progress_of(total=None, loss=None, steps_per_second=None, estimated_remaining_seconds=None), "step 350"),
        (None, ""),
    ],
)
def test_how_progress_is_worded(known, words: str) -> None:
    assert progress(known) == words
