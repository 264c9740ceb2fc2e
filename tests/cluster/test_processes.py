"""Which processes are ours, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import processes
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process

SLEEP = ["sleep", "600"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory whose processes end with the test."""
    yield tmp_path
    processes.kill(processes.living(tmp_path))


def test_what_was_started_is_found_by_its_state_directory_and_component(state: Path) -> None:
    one = processes.spawn(state, "one", SLEEP)
    two = processes.spawn(state, "two", SLEEP)
    assert set(processes.living(state)) == {one, two}
    assert processes.living(state, "two") == [two]


def test_processes_of_another_state_directory_are_not_ours(state: Path) -> None:
    other = state / "other"
    other.mkdir()
    stranger = processes.spawn(other, "one", SLEEP)
    assert processes.living(state) == []
    processes.kill([stranger])


def test_what_a_predecessor_left_is_found(state: Path) -> None:
    code = (
        "from pathlib import Path; from tests.cluster import processes; "
        f"processes.spawn(Path({str(state)!r}), 'one', ['sleep', '600'])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    assert [process.component for process in processes.living(state)] == ["one"]


def test_a_killed_process_is_gone(state: Path) -> None:
    process = processes.spawn(state, "one", SLEEP)
    processes.kill([process])
    assert not processes.alive(process)
    assert processes.living(state) == []


def test_killing_what_is_gone_is_no_error(state: Path) -> None:
    process = processes.spawn(state, "one", ["true"])
    processes.kill([process])
    processes.kill([process])
    assert not processes.alive(process)


def test_a_reused_pid_is_not_ours(state: Path) -> None:
    process = processes.spawn(state, "one", SLEEP)
    earlier = Process(process.pid, process.started - 1, "one")  # what a pid file of long ago would say
    assert not processes.alive(earlier)
    processes.kill([earlier])
    assert processes.alive(process)


def test_a_zombie_does_not_run(state: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended and is not reaped
    assert processes._start_time(child) is None
    os.waitpid(child, 0)


def test_a_restarted_component_has_the_same_command_line(state: Path) -> None:
    old = processes.spawn(state, "one", SLEEP)
    new = processes.restart(state, old)
    assert processes.living(state) == [new]
    assert Path(f"/proc/{new.pid}/cmdline").read_bytes() == b"sleep\x00600\x00"


def test_output_goes_into_the_components_log(state: Path) -> None:
    process = processes.spawn(state, "one", ["sh", "-c", "echo first; echo second >&2; exec sleep 600"])
    while "second" not in processes.log_tail(state, "one"):
        assert processes.alive(process)
    assert processes.log_tail(state, "one", lines=1) == "second"


def test_a_program_that_is_not_there_is_named(state: Path) -> None:
    with pytest.raises(ClusterError, match="cannot start one: /no/such/program: No such file or directory"):
        processes.spawn(state, "one", ["/no/such/program"])
