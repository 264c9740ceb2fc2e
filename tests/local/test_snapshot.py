"""What is said of a replica."""

from __future__ import annotations

from typing import Any

import pytest

from disttrain.api.parse import parse_job
from disttrain.core.model import Exit, Pod, Report
from disttrain.local.snapshot import exit_words, replicas, verdict
from tests.local.jobs import NOW, container_job, status


def pod(code: int | None = None, deleting: bool = False) -> Pod:
    ended = None if code is None else Exit(code=code, reason="", message="", finished_at=NOW)
    return Pod("digits-worker-0", "u", "o", "worker", 0, 2, deleting, code is None, code is None, ended)


def row(*known: Any) -> Any:
    job = parse_job(container_job({"command": ["x"]}, roles={"worker": {"replicas": 1}}))
    [only] = replicas(job, {("worker", 0): known} if known else {})
    return only


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ((), "pending"),
        ((pod(), None), "starting"),
        ((pod(), Report(waiting_for=("worker-1: refuses connections to port 7",))), "waiting for worker-1"),
        ((pod(), Report(waiting_for=("worker-1", "worker-2", "ps-0"))), "waiting for worker-1 +2"),
        ((pod(), Report()), "running"),
        ((pod(), Report(phase="saving")), "saving"),
        ((pod(deleting=True), Report(phase="training")), "stopping"),
        ((pod(0), None), "finished"),
        ((pod(42), None), "saved"),
        ((pod(1), None), "failed (exit code 1)"),
        ((pod(137), None), "failed (SIGKILL)"),
        ((pod(0, deleting=True), None), "stopped"),
        ((pod(143, deleting=True), None), "stopped"),
    ],
)
def test_the_state_of_a_replica(known: tuple[Any, ...], state: str) -> None:
    assert row(*known).state == state


@pytest.mark.parametrize("phase", ["compiling", "training", "saving", "evaluating", "exporting"])
def test_phases_of_training_are_one_milestone(phase: str) -> None:
    assert row(pod(), Report(phase=phase)).milestone == "training"


def test_only_a_failure_of_its_own_is_a_failure() -> None:
    assert [row(one, None).failed for one in (pod(1), pod(42), pod(0), pod(143, deleting=True))] == [
        True,
        False,
        False,
        False,
    ]


def test_progress_is_the_reports() -> None:
    one = row(pod(), Report(phase="training", step=7, loss=0.5))
    assert (one.name, one.attempt, one.step, one.loss) == ("worker-0", 2, 7, 0.5)


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (1, "exit code 1"), (137, "SIGKILL"), (255, "exit code 255")]
)
def test_how_an_exit_code_is_worded(code: int, words: str) -> None:
    assert exit_words(code) == words


@pytest.mark.parametrize(("condition", "expected"), [("Succeeded", True), ("Failed", False), ("Running", None)])
def test_the_verdict_is_the_conditions(condition: str, expected: bool | None) -> None:
    said = {"type": condition, "status": "True", "reason": "R", "message": "", "last_transition_time": NOW}
    assert verdict(status(conditions=[said])) is expected
