"""What the training process reports becomes progress, and nothing it sends can do harm."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttrain_agent import contract
from disttrain_agent.progress import Progress, fold, number, text
from disttrain_agent.status import Identity, Snapshot, document
from disttrain_agent.supervision import State
from tests.unit.agent.harness import whatever_the_load

MAX_DOCUMENT_BYTES = 64 * 1024  # what the operator reads of an agent's answer


def fed(*messages: object, seconds_apart: float = 1.0) -> Progress:
    progress = Progress()
    for count, message in enumerate(messages):
        datagram = message if isinstance(message, bytes) else json.dumps(message).encode()
        progress = fold(progress, datagram, count * seconds_apart)
    return progress


def shown(progress: Progress) -> bytes:
    identity = Identity("job", "uid", "worker", 0, 1)
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    return json.dumps(document(Snapshot(identity, State(), progress, moment)), allow_nan=False).encode()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"event": "phase", "phase": "training"}, Progress(phase="training")),
        ({"event": "saved", "step": 7, "location": "/d/c"}, Progress(checkpoint_step=7, checkpoint_location="/d/c")),
        (
            {"event": "evaluated", "step": 7, "metrics": {"auc": 0.5}},
            Progress(evaluation_step=7, evaluation_metrics={"auc": 0.5}),
        ),
        (
            {"event": "exported", "location": "/d/m", "metrics": {"accuracy": 1}},
            Progress(model_location="/d/m", model_metrics={"accuracy": 1.0}),
        ),
        ({"event": "exported", "location": "/d/m"}, Progress(model_location="/d/m")),
        ({"event": "error", "message": "no\nspace"}, Progress(error="no space")),
        ({"event": "finished"}, Progress(finished=True)),
    ],
)
def test_each_event_sets_its_fields(message: object, expected: Progress) -> None:
    assert fed(message) == expected


def test_a_step_has_total_epoch_and_loss() -> None:
    progress = fed({"event": "step", "step": 3, "totalSteps": 9, "epoch": 1, "loss": 0.25})
    assert (progress.step, progress.total_steps, progress.epoch, progress.loss) == (3, 9, 1, 0.25)


def test_what_a_step_leaves_out_stays() -> None:
    progress = fed({"event": "step", "step": 3, "totalSteps": 9, "loss": 0.25}, {"event": "step", "step": 4})
    assert (progress.step, progress.total_steps, progress.loss) == (4, 9, 0.25)


def test_a_resume_is_the_step_training_is_at() -> None:
    progress = fed({"event": "resumed", "step": 100})
    assert (progress.resumed_from, progress.step) == (100, 100)


@pytest.mark.parametrize(
    ("sent", "kept"), [(b"NaN", "NaN"), (b"Infinity", "Infinity"), (b"-Infinity", "-Infinity"), (b'"NaN"', "NaN")]
)
def test_a_loss_that_is_no_number_becomes_a_string(sent: bytes, kept: str) -> None:
    assert fed(b'{"event":"step","step":1,"loss":%b}' % sent).loss == kept


def test_the_rate_is_steps_over_seconds() -> None:
    steps = [{"event": "step", "step": 10 * count} for count in range(50)]
    assert fed(*steps, seconds_apart=0.5).rate.per_second() == pytest.approx(20.0)


def test_the_rate_follows_a_change_of_pace() -> None:
    slow = [{"event": "step", "step": count} for count in range(60)]
    fast = [{"event": "step", "step": 60 + 5 * count} for count in range(60)]
    assert fed(*slow, *fast).rate.per_second() == pytest.approx(5.0, rel=0.05)


def test_one_step_is_no_rate() -> None:
    assert fed({"event": "step", "step": 1}).rate.per_second() is None


def test_a_jump_to_the_resumed_step_is_no_rate() -> None:
    assert fed({"event": "resumed", "step": 0}, {"event": "resumed", "step": 10**6}).rate.per_second() is None


def test_steps_that_go_back_start_the_rate_anew() -> None:
    progress = fed(*({"event": "step", "step": step} for step in (100, 110, 5, 6, 7)))
    assert progress.rate.per_second() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{",
        b"[" * 8000,
        b"{}",
        b'{"event":"party"}',
        b'{"event":["step"],"step":1}',
        b'{"event":"step"}',
        b'{"event":"step","step":-1}',
        b'{"event":"step","step":true}',
        b'{"event":"step","step":1.5}',
        b'{"event":"step","step":1e400}',
        b'{"event":"step","step":99999999999999999999}',
        b'{"event":"step","step":1,"loss":{}}',
        b'{"event":"phase","phase":""}',
        b'{"event":"saved","step":1,"location":7}',
        b'{"event":"evaluated","step":1,"metrics":[1]}',
        json.dumps({"event": "evaluated", "step": 1, "metrics": {str(n): n for n in range(33)}}).encode(),
        b'{"event":"finished"}'.ljust(contract.REPORT_MAX_BYTES + 1),
    ],
)
def test_garbage_is_counted_and_changes_nothing_else(garbage: bytes) -> None:
    before = fed({"event": "step", "step": 5, "loss": 0.5})
    assert fold(before, garbage, 9.0) == replace(before, ignored=1)


EVENTS = [value for name, value in vars(contract).items() if name.startswith("EVENT_")]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["step", "totalSteps", "epoch", "loss", "location", "metrics", "message", "phase"]
MESSAGES = st.builds(
    lambda event, fields: json.dumps({**fields, "event": event}).encode(),
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(FIELDS), JSON),
)


@whatever_the_load
@given(st.lists(st.binary(max_size=64) | MESSAGES, max_size=6))
def test_the_document_stays_small_and_standard_whatever_comes(datagrams: list[bytes]) -> None:
    assert len(shown(fed(*datagrams))) < MAX_DOCUMENT_BYTES


@whatever_the_load
@given(st.dictionaries(st.text(min_size=1), st.floats(), max_size=32), st.text(min_size=1))
def test_the_longest_reports_fit_into_the_document(metrics: dict[str, float], words: str) -> None:
    wide = {f"{name}{'x' * 100}": value for name, value in metrics.items()}
    progress = fed(
        {"event": "error", "message": words * 100},
        {"event": "evaluated", "step": 1, "metrics": wide},
        {"event": "exported", "location": words * 100, "metrics": wide},
    )
    assert len(shown(progress)) < MAX_DOCUMENT_BYTES


@whatever_the_load
@given(st.text())
def test_a_text_is_one_line_of_printable_characters(words: str) -> None:
    try:
        line = text(words)
    except ValueError:
        return
    assert line.isprintable()


@whatever_the_load
@given(st.floats() | st.integers())
def test_a_number_fits_into_standard_json(value: float) -> None:
    json.dumps(number(value), allow_nan=False)
