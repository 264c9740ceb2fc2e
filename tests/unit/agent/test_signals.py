"""Signals reach the training process, a stop ends it in time, and nothing outlives the agent."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from disttrain_agent import contract
from disttrain_agent.cluster import Cluster
from tests.unit.agent.conftest import StartAgent
from tests.unit.agent.harness import RunningAgent, cluster, eventually, is_alive, python, single, task

# Prints the signals it gets; a SIGTERM ends it with 42, as a program that saved.
LISTENER = """
import os, signal, sys
def heard(number, frame):
    print(signal.Signals(number).name)
    if number == signal.SIGTERM:
        os._exit(42)
for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), heard)
print(os.getpid())
while True:
    signal.pause()
"""
STUBBORN = """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: print("no"))
print(os.getpid())
while True:
    signal.pause()
"""
FAMILY = ["sh", "-c", "sleep 1000 & echo $$; echo $!; wait"]


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_signals_are_passed_on(start: StartAgent, name: str) -> None:
    agent = start(python(LISTENER), single())
    agent.line()
    agent.send(signal.Signals[name])
    assert agent.line() == name
    assert agent.status()["state"] == contract.STATE_RUNNING


def test_a_saved_stop_keeps_its_code(start: StartAgent) -> None:
    agent = start(python(LISTENER), single())
    agent.line()
    agent.send(signal.SIGTERM)
    assert (agent.line(), agent.wait(), agent.word()["reason"]) == ("SIGTERM", 42, "Saved")


def test_sigint_is_a_stop_by_its_own_name(start: StartAgent) -> None:
    agent = start(python(LISTENER), single())
    agent.line()
    agent.send(signal.SIGINT)
    assert agent.line() == "SIGINT"
    agent.in_state(contract.STATE_STOPPING)


def test_sigterm_reaches_the_whole_group(start: StartAgent) -> None:
    agent = start(FAMILY, single())
    members = [int(agent.line()), int(agent.line())]
    agent.send(signal.SIGTERM)
    assert agent.wait() == 143
    assert not [pid for pid in members if is_alive(pid)]


def test_a_process_that_does_not_stop_is_killed_after_the_grace(start: StartAgent) -> None:
    agent = start(python(STUBBORN), single(ENV_GRACE_SECONDS="0.6"))
    child = int(agent.line())
    agent.send(signal.SIGTERM)
    assert (agent.line(), agent.wait()) == ("no", 137)
    assert (agent.word()["reason"], is_alive(child)) == ("Killed", False)
    assert agent.word()["error"] == "the training process did not end within the grace period and was killed"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_at_the_gate_ends_before_the_command(start: StartAgent, number: signal.Signals, code: int) -> None:
    agent = start(["echo", "never"], task(cluster("MultiWorkerMirrored", {"worker": 2})))
    agent.in_state(contract.STATE_GATE)
    agent.send(number)
    assert agent.wait() == code
    assert agent.word()["reason"] == "Stopped"


def test_the_child_dies_with_a_killed_agent(start: StartAgent) -> None:
    agent = start(python(STUBBORN), single())
    child = int(agent.line())
    agent.send(signal.SIGKILL)
    eventually(lambda: not is_alive(child))


def test_so_do_its_own_children(start: StartAgent) -> None:
    agent = start(FAMILY, single())
    members = [int(agent.line()), int(agent.line())]
    agent.send(signal.SIGKILL)
    eventually(lambda: not any(is_alive(pid) for pid in members))


def test_no_guard_is_left(start: StartAgent) -> None:
    agent = start(["sh", "-c", f"ps -o pid= --ppid {os.getpid()} >/dev/null; echo $PPID"], single())
    assert int(agent.line()) == agent.pid
    agent.wait()
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if "os.killpg(int(sys.argv[1])" in line and str(agent.pid) in line]


def started_with_a_parent(start: StartAgent, command: tuple[str, ...]) -> tuple[RunningAgent, int]:
    """An agent and the write end of its parent pipe."""
    reader, writer = os.pipe()
    agent = start(command, single(ENV_PARENT_FD=str(reader)), pass_fds=[reader])
    os.close(reader)
    return agent, writer


def test_when_its_parent_is_gone_the_agent_stops(start: StartAgent) -> None:
    agent, writer = started_with_a_parent(start, python(LISTENER))
    agent.line()
    os.close(writer)
    assert (agent.line(), agent.wait()) == ("SIGTERM", 42)


def test_without_a_parent_nobody_waits_long(start: StartAgent) -> None:
    agent, writer = started_with_a_parent(start, python(STUBBORN))
    agent.line()
    os.close(writer)
    assert (agent.wait(), agent.word()["reason"]) == (137, "Killed")


def test_what_the_parent_writes_means_nothing(start: StartAgent) -> None:
    agent, writer = started_with_a_parent(start, python(LISTENER))
    agent.line()
    os.write(writer, b"hello")
    agent.send(signal.SIGUSR1)
    assert (agent.line(), agent.status()["state"]) == ("SIGUSR1", contract.STATE_RUNNING)
    os.close(writer)


def test_the_child_does_not_inherit_the_parents_pipe(start: StartAgent) -> None:
    code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')), os.environ['DISTTRAIN_REPORT_FD'])"
    agent, writer = started_with_a_parent(start, python(code))
    opened, report = agent.line().rsplit(" ", 1)
    os.close(writer)
    # 0-2, the report socket, and the directory being listed
    assert int(report) > 2
    assert len(opened.split(",")) == 5


@pytest.fixture
def ps_job() -> Cluster:
    return cluster("ParameterServer", {"chief": 1, "worker": 1, "ps": 1})


def whole_job(start: StartAgent, described: Cluster) -> dict[str, RunningAgent]:
    """Chief, worker and ps with listeners as their programs, all past the gate."""
    agents = {role: start(python(LISTENER), task(described, role)) for role in ("chief", "worker", "ps")}
    for agent in agents.values():
        agent.line()
    return agents


def test_ps_and_workers_stop_after_the_leader(start: StartAgent, ps_job: Cluster) -> None:
    agents = whole_job(start, ps_job)
    for role in ("ps", "worker"):
        agents[role].send(signal.SIGTERM)
        agents[role].in_state(contract.STATE_STOPPING)
        agents[role].send(signal.SIGUSR1)
        assert agents[role].line() == "SIGUSR1"  # and not SIGTERM: it is held
    agents["chief"].send(signal.SIGTERM)
    assert agents["chief"].wait() == 42
    for role in ("ps", "worker"):
        assert (agents[role].line(), agents[role].wait()) == ("SIGTERM", 42)


def test_a_hold_ends_before_the_grace_does(start: StartAgent, ps_job: Cluster) -> None:
    agents = {role: start(python(LISTENER), task(ps_job, role)) for role in ("chief", "worker")}
    ps = start(python(LISTENER), task(ps_job, "ps", ENV_GRACE_SECONDS="0.6"))
    ps.line()
    agents["chief"].line()
    ps.send(signal.SIGTERM)
    assert (ps.line(), ps.wait()) == ("SIGTERM", 42)
    assert agents["chief"].status()["state"] == contract.STATE_RUNNING


def test_the_gang_does_not_wait_for_its_leader(start: StartAgent) -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    agents = [start(python(LISTENER), task(described, index=index)) for index in (0, 1)]
    for agent in agents:
        agent.line()
    agents[1].send(signal.SIGTERM)
    assert (agents[1].line(), agents[1].wait()) == ("SIGTERM", 42)
