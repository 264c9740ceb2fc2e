"""What the training process reports is what the agent serves and leaves behind."""

from __future__ import annotations

from disttrain_agent import contract
from tests.unit.agent.conftest import StartAgent
from tests.unit.agent.harness import UID, cluster, eventually, python, single, task

SAY = """
import json, os, socket, sys
agent = socket.socket(fileno=int(os.environ["DISTTRAIN_REPORT_FD"]))
def say(event, **fields):
    agent.send(json.dumps({"event": event, **fields}).encode())
"""
STAY = """
import signal
print("ready")
signal.pause()
"""


def test_the_status_has_what_was_reported(start: StartAgent) -> None:
    reports = """
say("resumed", step=10)
say("phase", phase="training")
say("step", step=12, totalSteps=50, epoch=2, loss=float("nan"))
say("saved", step=11, location="/d/checkpoints")
say("evaluated", step=11, metrics={"auc": 0.75})
say("exported", location="/d/model", metrics={"accuracy": 0.5})
"""
    agent = start(python(SAY + reports + STAY), single())
    agent.line()
    status = eventually(lambda: (seen := agent.status())["model"] and seen)
    assert status.pop("time").endswith("Z")
    assert status == {
        "version": 1,
        "job": "job",
        "uid": UID,
        "role": "worker",
        "index": 0,
        "attempt": 1,
        "state": "running",
        "waitingFor": [],
        "phase": "training",
        "exitCode": None,
        "reason": None,
        "progress": {"step": 12, "totalSteps": 50, "epoch": 2, "loss": "NaN", "stepsPerSecond": None},
        "resumedFrom": 10,
        "checkpoint": {"step": 11, "location": "/d/checkpoints"},
        "evaluation": {"step": 11, "metrics": {"auc": 0.75}},
        "model": {"location": "/d/model", "metrics": {"accuracy": 0.5}},
        "error": None,
    }


def test_the_last_reports_before_the_end_are_in_the_last_word(start: StartAgent) -> None:
    agent = start(python(SAY + "say('step', step=7); say('error', message='out of disk'); sys.exit(9)"), single())
    assert agent.wait() == 9
    word = agent.word()
    assert (word["progress"], word["error"], word["exitCode"]) == ({"step": 7}, "out of disk", 9)


def test_a_flood_of_garbage_neither_grows_the_status_nor_stops_the_agent(start: StartAgent) -> None:
    flood = """
for number in range(5000):
    agent.send(os.urandom(200))
    say("error", message="x" * 7000)
agent.send(b"x" * 60000)
say("step", step=1)
"""
    agent = start(python(SAY + flood + STAY), single())
    sizes = set()

    def size_until_the_step() -> bool:
        status = agent.status()
        sizes.add(len(str(status)))
        return status["progress"] is not None

    eventually(size_until_the_step)
    assert max(sizes) < 4096
    agent.process.terminate()
    assert agent.wait() == 143


def test_the_gate_serves_whom_it_waits_for(start: StartAgent) -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    agent = start(["true"], task(described))
    port = described.agents["worker"][1].rpartition(":")[2]
    status = eventually(lambda: "refuses" in str((seen := agent.status())["waitingFor"]) and seen)
    assert status["state"] == contract.STATE_GATE
    assert status["waitingFor"] == [f"worker-1: refuses connections to port {port}"]
