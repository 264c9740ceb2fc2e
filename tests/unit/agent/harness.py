"""Real agents under test: started as processes, watched through their output, their status and their last word."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

from disttrain_agent import contract
from disttrain_agent.cluster import Cluster

PATIENCE = 30.0
"""Seconds after which a test gives up; nothing takes that long unless it is broken."""

whatever_the_load = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For hypothesis: slowness is no counterexample."""

UID = "1a2b3c4d-0000-0000-0000-000000000000"
T = TypeVar("T")


def eventually(look: Callable[[], T]) -> T:
    """The first true thing that `look` returns; AssertionError after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, f"never came: {look}"
        time.sleep(0.01)
    return seen


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def cluster(strategy: str, replicas: Mapping[str, int], local: bool = True) -> Cluster:
    """A job's cluster, with `local` on free loopback ports as `disttrain run` has it."""
    described = Cluster("job", "team", "cluster.local", strategy, replicas)
    if not local:
        return described
    ports = iter(free_ports(2 * sum(replicas.values())))
    return Cluster(
        "job",
        "team",
        "cluster.local",
        strategy,
        replicas,
        addresses={role: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for role, n in replicas.items()},
        agents={role: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for role, n in replicas.items()},
    )


def task(
    described: Cluster, role: str = "worker", index: int = 0, attempt: int = 1, uid: str = UID, **more: str
) -> dict[str, str]:
    """The environment the operator gives one task; `more` has further variables by their names in `contract`."""
    return {
        contract.ENV_JOB: described.job,
        contract.ENV_JOB_UID: uid,
        contract.ENV_STRATEGY: described.strategy,
        contract.ENV_ROLE: role,
        contract.ENV_INDEX: str(index),
        contract.ENV_ATTEMPT: str(attempt),
        contract.ENV_CLUSTER: described.to_json(),
        **{getattr(contract, name): value for name, value in more.items()},
    }


def single(**more: str) -> dict[str, str]:
    """The environment of a job with one worker and no peers, on a port of the system's choice."""
    return task(cluster("Mirrored", {"worker": 1}, local=False), ENV_AGENT_PORT="0", **more)


def is_alive(pid: int) -> bool:
    """Whether a process with this pid runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


class RunningAgent:
    """One `disttrain-agent` process. Its child's stdout is read line by line; its own log is collected."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        word: Path,
        program: Sequence[str] = (sys.executable, "-m", "disttrain_agent", "--"),
        pass_fds: Iterable[int] = (),
    ) -> None:
        self._word = word
        self.process = subprocess.Popen(
            [*program, *command],
            env={**_inherited(), contract.ENV_TERMINATION_LOG: str(word), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.log: list[str] = []
        self._readers = [threading.Thread(target=self._read_output), threading.Thread(target=self._read_log)]
        for reader in self._readers:
            reader.start()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.logged(r"status on port (\d+)")[1])

    def line(self) -> str:
        """The next line of the child's stdout."""
        line = self._lines.get(timeout=PATIENCE)
        assert line is not None, f"the output ended; log: {self.log}"
        return line

    def logged(self, pattern: str) -> re.Match[str]:
        """Wait for a line on stderr."""
        found = eventually(lambda: next((m for line in list(self.log) if (m := re.search(pattern, line))), None))
        assert found is not None
        return found

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, as `subprocess` has it."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code

    def status(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/v1/status")
        return json.loads(connection.getresponse().read(), parse_constant=_refuse)

    def in_state(self, state: str) -> dict[str, Any]:
        """Wait until the status has this state; the status then."""
        return eventually(lambda: (status := self.status())["state"] == state and status)

    def word(self) -> dict[str, Any]:
        """The termination message."""
        return json.loads(self._word.read_bytes(), parse_constant=_refuse)

    def end(self) -> None:
        """After a test: nothing may be left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not standard JSON")


def _inherited() -> dict[str, str]:
    """This process' environment, without anything of a job this test may itself run in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DISTTRAIN_")}


def python(code: str) -> tuple[str, ...]:
    """A command that runs this code; what it prints arrives at once."""
    return (sys.executable, "-u", "-c", code)
