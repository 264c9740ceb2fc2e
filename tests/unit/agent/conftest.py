"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.agent.harness import RunningAgent

StartAgent = Callable[..., RunningAgent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartAgent]:
    """Start agents that end with the test: `start(command, env, ...)` as RunningAgent has it."""
    started: list[RunningAgent] = []

    def begin(command: Any, env: Any, **more: Any) -> RunningAgent:
        word = tmp_path / f"termination-log-{len(started)}"
        started.append(RunningAgent(command, env, word, **more))
        return started[-1]

    yield begin
    for agent in started:
        agent.end()
