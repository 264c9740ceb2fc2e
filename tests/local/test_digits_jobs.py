"""The examples, whole: real TensorFlow by the real `disttrain run`, also with a training process killed half way.

Each job runs once; the tests below ask different things of the same run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Shell, finish

EXAMPLES = Path(__file__).parents[2] / "examples"
ENOUGH = 0.93  # accuracy on held-out digits

pytestmark = pytest.mark.xdist_group("tensorflow")


@dataclass(frozen=True)
class Run:
    """A job that is over. `left` are processes that still ran after `disttrain run` had exited."""

    code: int
    status: dict[str, Any]
    told: str
    left: dict[int, str]

    @property
    def accuracy(self) -> float:
        return next(float(one["value"]) for one in self.status["model"]["metrics"] if one["name"] == "accuracy")


def run(directory: Path, example: str, victim: tuple[str, int] | None) -> Run:
    shell = Shell(directory)
    running = shell.start("run", "-o", "json", str(EXAMPLES / example))
    try:
        if victim is not None:
            shell.wait_for_checkpoint(seconds=300)
            os.kill(shell.training_process(*victim, program="disttrain_trainer.run"), signal.SIGKILL)
        code, out, err = finish(running)
        return Run(code, json.loads(out)["status"], err, shell.processes())
    finally:
        running.kill()
        shell.kill_rest()


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The quickstart, undisturbed."""
    return run(tmp_path_factory.mktemp("quickstart"), "digits-mwms.yaml", None)


KILLED = {
    "digits-mwms.yaml": ("worker", 1),
    "digits-ps.yaml": ("worker", 1),
    "digits-mirrored.yaml": ("worker", 0),
}


@pytest.fixture(scope="module", params=list(KILLED))
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Each strategy's example with one worker's training process killed."""
    return run(tmp_path_factory.mktemp("killed"), request.param, KILLED[request.param])


def predicted_accuracy(model: str) -> float:
    """By a second process that knows nothing but the exported model."""
    command = [sys.executable, EXAMPLES / "predict.py", model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^accuracy ([0-9.]+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return float(found.group(1))


def test_the_quickstart_succeeds_at_the_first_attempt(clean: Run) -> None:
    assert (clean.code, clean.status["restarts"], clean.status["attempt"]) == (0, 0, 1), clean.told


def test_the_quickstart_learns_the_digits(clean: Run) -> None:
    assert clean.accuracy >= ENOUGH


def test_the_quickstart_leaves_no_process(clean: Run) -> None:
    assert clean.left == {}


def test_a_job_whose_training_process_was_killed_succeeds(killed: Run) -> None:
    assert (killed.code, killed.status["phase"]) == (0, "Succeeded"), killed.told


def test_the_kill_costs_exactly_one_restart(killed: Run) -> None:
    assert (killed.status["restarts"], killed.status["disruptions"]) == (1, 0), killed.told


def test_the_failure_is_told_by_its_signal(killed: Run) -> None:
    assert killed.status["lastFailure"]["exitCode"] == 137


def test_training_goes_on_from_a_checkpoint(killed: Run) -> None:
    assert killed.status["lastResume"]["fromStep"] > 0, killed.told


def test_a_killed_job_still_learns_the_digits(killed: Run) -> None:
    assert killed.accuracy >= ENOUGH


def test_another_process_predicts_with_the_exported_model(killed: Run) -> None:
    assert predicted_accuracy(killed.status["model"]["location"]) >= ENOUGH


def test_a_killed_job_leaves_no_process(killed: Run) -> None:
    assert killed.left == {}
