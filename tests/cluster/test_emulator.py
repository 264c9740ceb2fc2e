"""The emulator's own life: real components, started and ended."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import components, emulator, processes
from tests.cluster.emulator import Emulator, Shared, users_path
from tests.cluster.errors import ClusterError

CHECKOUT = Path(__file__).parents[2]


def say(line: str) -> None:
    print(line)


def fresh() -> Emulator:
    return Emulator(f"own-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    """One that is up, for tests that leave it so."""
    each = fresh()
    each.up(say)
    yield each
    each.down(say)


@pytest.fixture
def own() -> Iterator[Emulator]:
    """A name for one that the test starts; down afterwards."""
    each = fresh()
    yield each
    each.down(say)


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.cluster", "emulator", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_up_runs_every_component(running: Emulator) -> None:
    assert set(running.status()) == set(components.COMPONENTS)
    assert running.healthy()


def test_up_again_changes_nothing(running: Emulator) -> None:
    before = running.status()
    running.up(say)
    assert running.status() == before


def test_status_says_that_it_is_up(running: Emulator) -> None:
    answer = cli("status", "--name", running.instance)
    assert (answer.returncode, answer.stdout.splitlines()[-1]) == (
        0,
        f"emulator {running.instance} is up at {running.server()}",
    )


def test_kubeconfig_prints_a_path_that_works(running: Emulator) -> None:
    answer = cli("kubeconfig", "--name", running.instance)
    assert answer.stdout == f"{running.kubeconfig}\n"


def test_status_says_that_it_is_down() -> None:
    answer = cli("status", "--name", "nobody")
    assert (answer.returncode, answer.stdout) == (3, "emulator nobody is down\n")


def test_there_is_no_kubeconfig_of_one_that_is_down() -> None:
    answer = cli("kubeconfig", "--name", "nobody")
    assert (answer.returncode, answer.stderr) == (1, "error: emulator nobody is not up\n")


def test_a_name_that_is_no_name_is_refused() -> None:
    answer = cli("up", "--name", "../x")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)


def test_its_keys_are_private(running: Emulator) -> None:
    keys = [running.kubeconfig, *running.state.glob("pki/*.key")]
    assert running.state.stat().st_mode & 0o077 == 0
    assert [path for path in keys if path.stat().st_mode & 0o077] == []


def test_what_is_half_dead_is_replaced(own: Emulator) -> None:
    own.up(say)
    processes.kill(processes.living(own.state, "kube-apiserver"))
    own.up(say)
    assert own.healthy()
    assert set(own.status()) == set(components.COMPONENTS)


def test_down_leaves_nothing(own: Emulator) -> None:
    own.up(say)
    started = processes.living(own.state)
    own.down(say)
    assert [process for process in started if processes.alive(process)] == []
    assert not own.state.exists()


def test_a_state_directory_without_processes_is_replaced(own: Emulator) -> None:
    own.state.mkdir()
    own.kubeconfig.write_text('{"clusters": [{"cluster": {"server": "https://127.0.0.1:1"}}]}')
    own.up(say)
    assert own.healthy()


def test_a_taken_port_is_exchanged(own: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    free_ports, calls = emulator._free_ports, []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        def ports(count: int) -> list[int]:
            calls.append(count)
            rest = free_ports(count)
            return [taken.getsockname()[1], *rest[1:]] if len(calls) == 1 else rest

        monkeypatch.setattr(emulator, "_free_ports", ports)
        own.up(say)
    assert (own.healthy(), len(calls)) == (True, 2)


def test_a_component_that_dies_is_named_with_its_last_words(own: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = components.commands
    monkeypatch.setattr(
        emulator, "commands", lambda setup: {**commands(setup), "kube-apiserver": ["sh", "-c", "echo bad flag; exit 1"]}
    )
    with pytest.raises(ClusterError, match=r"kube-apiserver ended while the emulator was starting; (?s:.*)bad flag"):
        own.up(say)
    assert not own.state.exists()


def test_a_full_disk_is_said_as_such(own: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ClusterError, match=r"no disk space for the emulator: 0\.0 GB free"):
        own.up(say)


def test_a_shared_one_ends_with_its_last_user(own: Emulator) -> None:
    first, second = Shared(own.instance, say), Shared(own.instance, say)
    first.leave()
    assert own.healthy()
    second.leave()
    assert not own.state.exists()
    assert not users_path(own.instance).exists()


def test_a_shared_one_ends_when_its_user_is_killed(own: Emulator) -> None:
    code = (
        "import time; from tests.cluster.emulator import Shared; "
        f"Shared({own.instance!r}, print); print('ready', flush=True); time.sleep(600)"
    )
    user = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT, text=True, stdout=subprocess.PIPE)
    assert user.stdout is not None
    assert "ready\n" in iter(user.stdout.readline, "")
    user.kill()
    user.communicate()
    deadline = time.monotonic() + 60
    while own.state.exists() or processes.living(own.state):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.1)
