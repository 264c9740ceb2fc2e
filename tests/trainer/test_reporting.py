"""What the agent hears from a training process."""

from __future__ import annotations

import json
import math
import socket

import pytest

from disttrain_agent import contract
from disttrain_trainer.reporting import Reporter, finite, first_line


class Agent:
    """The other end of the report socket, and a clock that the test turns."""

    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.connection.setblocking(False)
        self.now = 0.0
        self.reporter = Reporter(theirs, lambda: self.now)

    def heard(self) -> list[dict[str, object]]:
        messages = []
        while True:
            try:
                messages.append(json.loads(self.connection.recv(contract.REPORT_MAX_BYTES)))
            except BlockingIOError:
                return messages


def test_a_step_is_one_json_datagram():
    agent = Agent()
    agent.reporter.step({"step": 3, "totalSteps": 10, "epoch": None, "loss": 0.5})
    assert agent.heard() == [{"event": "step", "step": 3, "totalSteps": 10, "loss": 0.5}]


def test_at_most_ten_steps_a_second_are_sent():
    agent = Agent()
    for step in range(1, 1001):
        agent.now = step / 1000
        agent.reporter.step({"step": step})
    assert len(agent.heard()) <= 11


def test_the_last_step_is_never_lost():
    agent = Agent()
    for step in range(1, 6):
        agent.reporter.step({"step": step})
    agent.reporter.flush()
    assert agent.heard()[-1]["step"] == 5


def test_the_step_held_back_is_sent_before_any_other_event():
    agent = Agent()
    for step in (1, 2):
        agent.reporter.step({"step": step})
    agent.reporter.event("saved", {"step": 2, "location": "/x"})
    assert [message["event"] for message in agent.heard()] == ["step", "step", "saved"]


def test_an_agent_that_does_not_listen_stops_nobody():
    agent = Agent()
    for step in range(5000):
        agent.now += 1
        agent.reporter.step({"step": step})
    assert agent.heard()[0]["step"] == 0


def test_an_agent_that_is_gone_stops_nobody():
    agent = Agent()
    agent.connection.close()
    agent.reporter.event("phase", {"phase": "training"})
    agent.reporter.event("phase", {"phase": "saving"})


def test_without_an_agent_reports_go_nowhere():
    Reporter(None).event("phase", {"phase": "training"})


def test_a_report_too_long_for_the_agent_is_not_sent():
    agent = Agent()
    agent.reporter.event("evaluated", {"step": 1, "metrics": {"m" * contract.REPORT_MAX_BYTES: 1.0}})
    assert agent.heard() == []


@pytest.mark.parametrize(
    ("value", "sent"), [(1, 1.0), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_numbers_that_json_cannot_carry_become_words(value, sent):
    assert finite(value) == sent


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("first\nsecond"), "ValueError: first"), (KeyError(), "KeyError"), (OSError("\n  x"), "OSError: x")],
)
def test_an_error_is_told_in_one_line(error, line):
    assert first_line(error) == line


GRAPH_ERROR = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "train.py", line 3, in <module>

  File "loop.py", line 9, in run

Collective ops is aborted by: Socket closed
The error could be from a previous operation.
"""


def test_an_error_from_within_a_graph_is_told_without_its_traceback():
    assert first_line(RuntimeError(GRAPH_ERROR)) == "RuntimeError: Collective ops is aborted by: Socket closed"
