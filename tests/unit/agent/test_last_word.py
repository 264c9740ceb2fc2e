"""The termination message: always valid JSON, never longer than Kubernetes keeps, never a reason to fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttrain_agent import contract, last_word
from disttrain_agent.progress import Progress
from disttrain_agent.status import Document, Identity, Snapshot, document
from disttrain_agent.supervision import Phase, State
from tests.unit.agent.harness import whatever_the_load

ENDED = State(phase=Phase.EXITED, exit_code=1, reason=contract.REASON_ERROR)
MOMENT = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)


def ended(progress: Progress, waiting: tuple[str, ...] = ()) -> Document:
    return document(Snapshot(Identity("job", "uid", "worker", 0, 2), ENDED, progress, MOMENT, waiting))


def test_it_says_how_it_ended_without_empty_parts() -> None:
    progress = Progress(step=7, resumed_from=5, checkpoint_step=6, checkpoint_location="/d", error="no space")
    assert json.loads(last_word.encode(ended(progress))) == {
        "version": 1,
        "job": "job",
        "uid": "uid",
        "role": "worker",
        "index": 0,
        "attempt": 2,
        "state": "exited",
        "exitCode": 1,
        "reason": "Error",
        "progress": {"step": 7},
        "resumedFrom": 5,
        "checkpoint": {"step": 6, "location": "/d"},
        "error": "no space",
        "time": "2026-11-30T20:00:00Z",
    }


def test_zero_and_step_zero_are_not_empty() -> None:
    word = json.loads(last_word.encode(ended(Progress(step=0, resumed_from=0))))
    assert (word["index"], word["progress"]["step"], word["resumedFrom"]) == (0, 0, 0)


def test_a_long_error_is_cut_before_the_metrics_are_left_out() -> None:
    progress = Progress(error="e" * 4000, evaluation_step=1, evaluation_metrics={"auc": 0.5})
    word = json.loads(last_word.encode(ended(progress)))
    assert word["evaluation"]["metrics"] == {"auc": 0.5}
    assert word["error"].endswith("e…")


METRICS = st.dictionaries(
    st.text(min_size=1, max_size=64), st.floats(allow_nan=False, allow_infinity=False), max_size=32
)
TEXTS = st.text(min_size=1, max_size=1024)


@whatever_the_load
@given(METRICS, TEXTS, st.lists(TEXTS, max_size=16), st.integers(1024, contract.TERMINATION_LOG_MAX_BYTES))
def test_it_always_fits_and_keeps_code_reason_and_step(
    metrics: dict[str, float], words: str, waiting: list[str], limit: int
) -> None:
    progress = Progress(
        step=2**53 - 1,
        error=words,
        checkpoint_step=1,
        checkpoint_location=words,
        evaluation_step=1,
        evaluation_metrics=metrics,
        model_location=words,
        model_metrics=metrics,
    )
    encoded = last_word.encode(ended(progress, tuple(waiting)), limit)
    word = json.loads(encoded.decode("utf-8"))
    assert len(encoded) <= limit
    assert (word["exitCode"], word["reason"], word["progress"]["step"]) == (1, "Error", 2**53 - 1)


@pytest.mark.parametrize("create", [True, False])
def test_a_path_that_cannot_be_written_is_one_log_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], create: bool
) -> None:
    path = tmp_path / "absent" / "log"
    last_word.write(ended(Progress()), str(path), create)
    assert capfd.readouterr().err == f"disttrain-agent: no termination message: {path}: No such file or directory\n"


def test_only_a_given_path_is_created(tmp_path: Path) -> None:
    last_word.write(ended(Progress()), str(tmp_path / "kubelets"), create=False)
    last_word.write(ended(Progress()), str(tmp_path / "ours"), create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_a_longer_word_of_an_earlier_run_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 5000)
    last_word.write(ended(Progress()), str(path), create=False)
    assert json.loads(path.read_bytes())["state"] == "exited"
