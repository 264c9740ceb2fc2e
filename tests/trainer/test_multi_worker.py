"""Two workers train in step: killed, stopped and resumed, they end with the very weights of an undisturbed run.

One story of four starts, told once; each test asserts one thing about it.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from disttrain_agent import contract
from tests.trainer.launch import Job, Replica

PROGRAM = Path(__file__).parent / "programs" / "small.py"
STEPS = 100
EVERY = 20


@dataclass
class Story:
    undisturbed: dict[str, Replica]
    killed: dict[str, Replica]
    stopped: dict[str, Replica]
    finished: dict[str, Replica]
    run_dir: Path


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    def job(name: str) -> Job:
        arguments = ("--steps", str(STEPS))
        run_dir = tmp_path_factory.mktemp(name)
        return Job("MultiWorkerMirrored", {"worker": 2}, run_dir, PROGRAM, arguments, {"everySteps": EVERY, "keep": 2})

    with job("undisturbed").start() as undisturbed:
        ends(undisturbed)
    disturbed = job("disturbed")
    with disturbed.start() as killed:
        killed["worker-0"].wait_for_save(EVERY)
        killed["worker-1"].signal(signal.SIGKILL)
        killed["worker-0"].exit_code()
    with disturbed.start() as stopped:
        stopped["worker-1"].wait_for_step(newest(killed) + 1)
        stopped["worker-1"].signal(signal.SIGTERM)
        ends(stopped)
    with disturbed.start() as finished:
        ends(finished)
    assert disturbed.run_dir is not None
    return Story(undisturbed, killed, stopped, finished, disturbed.run_dir)


def ends(replicas: dict[str, Replica]) -> list[int]:
    return [replica.exit_code() for replica in replicas.values()]


def newest(replicas: dict[str, Replica]) -> int:
    return int(replicas["worker-0"].of(contract.EVENT_SAVED)[-1]["step"])


def resumed(replicas: dict[str, Replica]) -> list[int]:
    return [int(replica.of(contract.EVENT_RESUMED)[0]["step"]) for replica in replicas.values()]


def last_steps(replicas: dict[str, Replica]) -> list[int]:
    return [int(replica.of(contract.EVENT_STEP)[-1]["step"]) for replica in replicas.values()]


def weights(replicas: dict[str, Replica]) -> set[str]:
    return {line for replica in replicas.values() for line in replica.output.splitlines() if line.startswith("sha ")}


def test_an_undisturbed_run_succeeds(story):
    assert ends(story.undisturbed) == [0, 0]


def test_all_workers_end_with_the_same_weights(story):
    assert len(weights(story.undisturbed)) == 1


def test_every_replica_reports_the_last_step(story):
    assert last_steps(story.undisturbed) == [STEPS, STEPS]


def test_a_worker_whose_peer_is_killed_fails_and_says_why(story):
    survivor = story.killed["worker-0"]
    assert survivor.exit_code() == 1
    assert survivor.of(contract.EVENT_ERROR)


def test_after_a_kill_all_workers_resume_from_the_newest_checkpoint(story):
    assert resumed(story.stopped) == [newest(story.killed)] * 2


def test_sigterm_to_one_worker_ends_all_with_42(story):
    assert ends(story.stopped) == [contract.EXIT_SAVED] * 2


def test_sigterm_ends_all_at_the_same_step(story):
    assert len(set(last_steps(story.stopped))) == 1


def test_the_step_of_the_stop_is_saved(story):
    assert [newest(story.stopped)] * 2 == last_steps(story.stopped)


def test_after_a_stop_no_step_is_repeated(story):
    assert resumed(story.finished) == last_steps(story.stopped)


def test_the_weights_are_bit_equal_to_those_of_the_undisturbed_run(story):
    assert weights(story.finished) == weights(story.undisturbed)


def test_only_the_leader_reports_the_model(story):
    models = [replica.of(contract.EVENT_EXPORTED) for replica in story.finished.values()]
    assert [[event["location"] for event in events] for events in models] == [[str(story.run_dir / "model")], []]


def test_a_complete_job_ends_at_once(story, tmp_path):
    done = Job("MultiWorkerMirrored", {"worker": 2}, story.run_dir, PROGRAM, ("--steps", str(STEPS)))
    with done.start() as replicas:
        assert ends(replicas) == [0, 0]
        assert [replica.of(contract.EVENT_RESUMED) for replica in replicas.values()] == [[], []]
