"""What a training process said, read without trust."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttrain.core.model import Report
from disttrain.core.report import parse_time, printable, report_from_message, report_from_status
from tests.unit.core.factory import ANYTHING

FULL = {
    "version": 1,
    "job": "recsys",
    "role": "chief",
    "index": 0,
    "attempt": 2,
    "phase": "training",
    "waitingFor": ["worker-1"],
    "progress": {"step": 1200, "totalSteps": 5000, "epoch": 3, "loss": 0.5, "stepsPerSecond": 12.5},
    "resumedFrom": 1000,
    "checkpoint": {"step": 1100, "location": "/disttrain/checkpoints"},
    "evaluation": {"step": 1000, "metrics": {"auc": 0.91}},
    "model": {"location": "/disttrain/model", "metrics": {"accuracy": "NaN"}},
    "error": "ValueError: bad shape",
    "time": "2026-12-01T12:00:00Z",
}
NOTHING = Report()


def test_every_part_is_read():
    report = report_from_status(FULL)
    assert (report.step, report.total_steps, report.epoch, report.loss) == (1200, 5000, 3, 0.5)
    assert (report.steps_per_second, report.resumed_from, report.attempt) == (12.5, 1000, 2)
    assert (report.checkpoint_step, report.checkpoint_location) == (1100, "/disttrain/checkpoints")
    assert (report.evaluation_step, dict(report.evaluation_metrics)) == (1000, {"auc": 0.91})
    assert report.model_location == "/disttrain/model"
    assert math.isnan(report.metrics["accuracy"])
    assert (report.phase, report.waiting_for, report.error) == ("training", ("worker-1",), "ValueError: bad shape")
    assert report.time == datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_an_empty_status_says_nothing():
    assert report_from_status({}) == NOTHING


@pytest.mark.parametrize("step", [-1, 1.5, True, "7", None, [], 2**63])
def test_a_step_that_is_no_count_is_left_out(step):
    assert report_from_status({"progress": {"step": step}}).step is None


@pytest.mark.parametrize(
    ("loss", "expected"), [("0.25", 0.25), ("Infinity", math.inf), ("x", None), (True, None), (10**400, None)]
)
def test_a_loss_may_be_sent_as_a_string(loss, expected):
    assert report_from_status({"progress": {"loss": loss}}).loss == expected


def test_texts_are_one_printable_line_of_bounded_length():
    report = report_from_status({"error": "a\x1b[31mb\nc\ud800" + "x" * 5000})
    assert report.error.startswith("a [31mb c")
    assert len(report.error) <= 1024


def test_metrics_are_bounded():
    metrics = {f"m{number}": number for number in range(100)}
    assert len(report_from_status({"model": {"metrics": metrics}}).metrics) == 32


def test_a_termination_message_of_an_agent_is_a_report():
    assert report_from_message(json.dumps(FULL)).step == 1200


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Traceback",
        "{",
        "{}",
        "[]",
        '{"progress": {"step": 1}}',
        "[" * 4000,
        '{"version":1,"a":' + "[" * 4000,
        "9" * 5000,
    ],
)
def test_another_message_is_none(message):
    assert report_from_message(message) is None


@pytest.mark.parametrize("text", [None, 5, "", "noon", "2026-12-01T12:00:00", "0001-01-01T00:00:00+01:00"])
def test_what_is_no_time_is_none(text):
    assert parse_time(text) is None


@ANYTHING
@given(st.text())
def test_a_printable_text_is_printable(text):
    assert printable(text, 20).isprintable()
    assert len(printable(text, 20)) <= 20


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@ANYTHING
@given(st.dictionaries(st.sampled_from([*FULL, "step", "metrics"]), JSON))
def test_garbage_is_survived(data):
    report_from_status(data)


@ANYTHING
@given(st.text(max_size=50).map(lambda text: "{" + text))
def test_a_garbled_message_is_survived(message):
    report_from_message(message)
