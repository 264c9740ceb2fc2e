"""Keras's fit, mirrored over two devices: stopped in the middle of an epoch, it resumes as if it had not been."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from disttrain_agent import contract
from tests.trainer.launch import START_SECONDS, Job, Replica, alone

PROGRAM = Path(__file__).parent / "programs" / "small.py"
STEPS = 120


@dataclass
class Story:
    undisturbed: Replica
    stopped: Replica
    finished: Replica


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    def start(name: str, stop: bool = False) -> Replica:
        with job(name).start() as replicas:
            worker = replicas["worker-0"]
            if stop:
                worker.wait_for_step(20)
                worker.signal(signal.SIGTERM)
            worker.exit_code()
        return worker

    storage = tmp_path_factory.mktemp("storage")

    def job(name: str) -> Job:
        arguments = ("--mode", "fit", "--steps", str(STEPS), "--steps-per-epoch", "50")
        devices = {contract.ENV_CPU_DEVICES: "2"}
        return Job("Mirrored", {"worker": 1}, storage / name, PROGRAM, arguments, {"everySteps": 1000}, devices)

    return Story(start("undisturbed"), start("disturbed", stop=True), start("disturbed"))


def weights(replica: Replica) -> str:
    return next(line for line in replica.output.splitlines() if line.startswith("sha "))


def test_fit_succeeds(story):
    assert story.undisturbed.exit_code() == 0


def test_sigterm_saves_and_ends_fit_with_42(story):
    assert story.stopped.exit_code() == contract.EXIT_SAVED
    assert story.stopped.of(contract.EVENT_SAVED)


def test_fit_resumes_where_it_stopped(story):
    saved = story.stopped.of(contract.EVENT_SAVED)[-1]["step"]
    assert story.finished.of(contract.EVENT_RESUMED)[0]["step"] == saved


def test_the_weights_are_bit_equal_to_those_of_the_undisturbed_run(story):
    assert weights(story.finished) == weights(story.undisturbed)


def test_the_epoch_is_reported(story):
    assert story.undisturbed.of(contract.EVENT_STEP)[-1]["epoch"] == 3


@pytest.mark.parametrize(
    ("strategy", "arguments", "message"),
    [
        ("MultiWorkerMirrored", ("96", "fit", "graph"), 'use mode="loop"'),
        ("ParameterServer", ("96", "fit", "graph"), 'use mode="loop"'),
        ("ParameterServer", ("96", "loop", "eager"), "leave eager out"),
        ("Mirrored", ("95", "loop", "graph"), "cannot be split evenly over 2 replicas; use 94 or 96"),
    ],
)
def test_what_cannot_work_is_refused_at_start_with_the_way_out(tmp_path, strategy, arguments, message):
    replicas = {"chief": 1, "worker": 1, "ps": 1} if strategy == "ParameterServer" else {"worker": 1}
    env = {contract.ENV_CPU_DEVICES: "2"}
    job = Job(strategy, replicas, tmp_path, PROGRAM.with_name("refused.py"), arguments, env=env)
    leader = "chief-0" if "chief" in replicas else "worker-0"
    with job.start(only=leader) as started:
        assert started[leader].exit_code() == contract.EXIT_USAGE
    assert message in started[leader].of(contract.EVENT_ERROR)[0]["message"]


def test_a_program_trains_without_any_job(tmp_path):
    command = [sys.executable, str(PROGRAM), "--steps", "5"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=alone(), capture_output=True, text=True, timeout=START_SECONDS, check=True
    )
    assert "accuracy" in ended.stdout
    assert list(tmp_path.iterdir()) == []
