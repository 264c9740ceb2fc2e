"""TF_CONFIG reaches the training process whatever its size."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from disttrain_agent import contract
from tests.unit.agent.conftest import StartAgent
from tests.unit.agent.harness import RunningAgent, cluster, python, task

SHOW = "import os; print(os.environ.get('TF_CONFIG'))"
BIG = 3500


def big_task(**more: str) -> dict[str, str]:
    """The evaluator of a job with BIG workers: it has the whole map and waits for nobody."""
    return task(cluster("MultiWorkerMirrored", {"worker": BIG}, local=False), "evaluator", ENV_AGENT_PORT="0", **more)


def shown(agent: RunningAgent) -> Any:
    config = json.loads(agent.line())
    assert agent.wait() == 0, agent.log
    return config


def test_mirrored_has_none_even_if_one_was_given(start: StartAgent) -> None:
    environ = task(cluster("Mirrored", {"worker": 1}, local=False), ENV_AGENT_PORT="0")
    agent = start(python(SHOW), {**environ, "TF_CONFIG": "{}"})
    assert (agent.line(), agent.wait()) == ("None", 0)


@pytest.mark.parametrize(
    ("strategy", "replicas", "order"),
    [
        ("MultiWorkerMirrored", {"worker": 2}, ["worker"]),
        ("MultiWorkerMirrored", {"chief": 1, "worker": 1}, ["chief", "worker"]),
        ("ParameterServer", {"chief": 1, "worker": 1, "ps": 1}, ["chief", "worker", "ps"]),
    ],
)
def test_every_member_gets_the_map_and_its_own_task(
    start: StartAgent, strategy: str, replicas: dict[str, int], order: list[str]
) -> None:
    described = cluster(strategy, replicas)
    members = described.members()
    agents = [start(python(SHOW), {**task(described, *member), "TF_CONFIG": "{}"}) for member in members]
    for (role, index), agent in zip(members, agents, strict=True):
        config = json.loads(agent.line())
        assert config["task"] == {"type": role, "index": index}
        assert list(config["cluster"]) == order
        assert config["cluster"] == {role: list(described.addresses[role]) for role in order}


def test_past_the_limit_of_execve_python_composes_it(start: StartAgent) -> None:
    config = shown(start(python(SHOW), big_task()))
    assert len(json.dumps(config, separators=(",", ":"))) > contract.MAX_ENV_STRING_BYTES
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert len(config["cluster"]["worker"]) == BIG


def test_so_does_a_python_started_by_a_shell(start: StartAgent) -> None:
    agent = start(["sh", "-c", f'{sys.executable} -c "{SHOW}"'], big_task())
    assert len(shown(agent)["cluster"]["worker"]) == BIG


def test_the_program_can_still_start_others(start: StartAgent) -> None:
    code = "import subprocess, sys; print(subprocess.run(['echo', 'started'], check=True, stdout=-1).stdout.decode())"
    agent = start(python(code), big_task())
    assert agent.line() == "started"


def test_the_users_sitecustomize_still_runs_and_sees_it(start: StartAgent, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; print('mine', len(os.environ['TF_CONFIG']) > 131072)\n")
    code = "import sys; print(sys.modules['sitecustomize'].__file__, 'disttrain_agent' in sys.modules)"
    agent = start(python(code), {**big_task(), "PYTHONPATH": str(tmp_path)})
    assert agent.line() == "mine True"
    assert agent.line() == f"{tmp_path}/sitecustomize.py False"


def test_a_programs_own_tf_config_is_left_alone(start: StartAgent) -> None:
    agent = start(["sh", "-c", f'TF_CONFIG=mine {sys.executable} -c "{SHOW}"'], big_task())
    assert agent.line() == "mine"


def test_without_its_task_python_does_not_start(start: StartAgent) -> None:
    agent = start(["sh", "-c", f'DISTTRAIN_INDEX=x {sys.executable} -c "{SHOW}"'], big_task())
    assert agent.wait() == contract.EXIT_USAGE
    agent.logged("cannot compose TF_CONFIG: ValueError")
