"""A chief, a parameter server, two workers and an evaluator; a worker is killed on the way."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from disttrain_agent import contract
from tests.trainer.launch import Job, Replica

PROGRAM = Path(__file__).parent / "programs" / "small.py"
STEPS = 240
EVERY = 80


@dataclass
class Story:
    stopped: dict[str, Replica]
    finished: dict[str, Replica]
    storage: Path
    elsewhere: Path


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    # The job's directory is a relative path: only who works in `storage` finds it, and the servers work elsewhere.
    storage, elsewhere = tmp_path_factory.mktemp("storage"), tmp_path_factory.mktemp("elsewhere")
    job = Job(
        "ParameterServer",
        {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1},
        Path("run"),
        PROGRAM,
        ("--steps", str(STEPS)),
        {"everySteps": EVERY, "keep": 3},
        directories={"chief": storage, "evaluator": storage, "worker": elsewhere, "ps": elsewhere},
    )
    with job.start() as stopped:
        stopped["chief-0"].wait_for_step(1)
        stopped["worker-1"].signal(signal.SIGKILL)
        stopped["chief-0"].wait_for_save(EVERY)
        stopped["chief-0"].signal(signal.SIGTERM)
        stopped["chief-0"].exit_code()
        stop_servers(stopped)
    with job.start() as finished:
        finished["chief-0"].exit_code()
        finished["evaluator-0"].exit_code()
        stop_servers(finished)
    return Story(stopped, finished, storage, elsewhere)


def stop_servers(replicas: dict[str, Replica]) -> None:
    servers = [replica for name, replica in replicas.items() if name.startswith(("worker", "ps"))]
    for server in servers:
        server.signal(signal.SIGTERM)
    for server in servers:
        server.exit_code()


def test_training_goes_on_without_a_killed_worker(story):
    assert story.stopped["chief-0"].of(contract.EVENT_SAVED)[0]["step"] == EVERY


def test_sigterm_to_the_chief_saves_and_ends_it_with_42(story):
    chief = story.stopped["chief-0"]
    assert chief.exit_code() == contract.EXIT_SAVED
    assert chief.of(contract.EVENT_SAVED)[-1]["step"] == chief.of(contract.EVENT_STEP)[-1]["step"]


def test_the_chief_resumes_where_it_stopped(story):
    resumed = story.finished["chief-0"].of(contract.EVENT_RESUMED)[0]["step"]
    assert resumed == story.stopped["chief-0"].of(contract.EVENT_SAVED)[-1]["step"]


def test_the_chief_succeeds(story):
    assert story.finished["chief-0"].exit_code() == 0


def test_the_model_learned(story):
    assert story.finished["chief-0"].of(contract.EVENT_EXPORTED)[0]["metrics"]["accuracy"] > 0.8


@pytest.mark.parametrize("server", ["worker-0", "worker-1", "ps-0"])
def test_servers_end_with_0_on_sigterm(story, server):
    assert story.finished[server].exit_code() == 0


def test_checkpoints_are_written_by_the_chief_and_not_by_the_parameter_servers(story):
    assert list(story.elsewhere.iterdir()) == []


def test_the_evaluator_ends_by_itself_once_the_last_checkpoint_is_evaluated(story):
    evaluator = story.finished["evaluator-0"]
    assert evaluator.exit_code() == 0
    assert evaluator.of(contract.EVENT_EVALUATED)[-1]["step"] == STEPS


def test_the_evaluations_are_in_the_jobs_directory(story):
    lines = (story.storage / "run" / "evaluation.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == STEPS
