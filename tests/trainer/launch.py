"""Plays the agent: starts the replicas of a job as processes with the environment, ports and report socket it gives."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disttrain_agent import contract
from disttrain_agent.cluster import Cluster

START_SECONDS = 300  # a deadline for what takes seconds on an idle machine: importing TensorFlow on a busy one
Event = Mapping[str, Any]


class Replica:
    """A training process whose reports and output are kept, to be waited for."""

    def __init__(self, arguments: list[str], env: Mapping[str, str], directory: Path | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.events: list[Event] = []
        self.output = ""
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "disttrain_trainer.run", *arguments],
            env={**env, contract.ENV_REPORT_FD: str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
        )
        theirs.close()
        self._readers = [
            threading.Thread(target=self._read_events, args=(ours,), daemon=True),
            threading.Thread(target=self._read_output, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait_for(self, what: Callable[[Event], bool], seconds: float = START_SECONDS) -> Event:
        """The first report, past or to come, that is `what`."""

        def found() -> Event | None:
            return next((event for event in self.events if what(event)), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._process.poll() is not None, seconds)
            event = found()
        assert event is not None, f"no such report in {seconds} s; it reported {self.events[-5:]}\n{self.output}"
        return event

    def wait_for_step(self, step: int) -> Event:
        return self.wait_for(lambda event: event["event"] == contract.EVENT_STEP and event["step"] >= step)

    def wait_for_save(self, step: int) -> Event:
        return self.wait_for(lambda event: event["event"] == contract.EVENT_SAVED and event["step"] >= step)

    def exit_code(self, seconds: float = START_SECONDS) -> int:
        """Wait for the end; 128 + signal for a process that a signal ended."""
        code = self._process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code if code >= 0 else 128 - code

    def of(self, name: str) -> list[Event]:
        return [event for event in self.events if event["event"] == name]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _read_events(self, connection: socket.socket) -> None:
        # A datagram socket has no end of file: ask the process whether there is anybody left to listen to.
        connection.settimeout(0.2)
        with connection:
            while True:
                ended = self._process.poll() is not None
                try:
                    datagram = connection.recv(contract.REPORT_MAX_BYTES)
                except TimeoutError:
                    if ended:
                        break
                    continue
                with self._news:
                    self.events.append(json.loads(datagram))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self.output += line


@dataclass(frozen=True)
class Job:
    """A job to start, as often as a test likes: its storage outlives each start."""

    strategy: str
    replicas: Mapping[str, int]
    run_dir: Path | None
    program: Path
    arguments: tuple[str, ...] = ()
    checkpoint: Mapping[str, Any] = field(default_factory=lambda: {"everySteps": 20, "keep": 3})
    env: Mapping[str, str] = field(default_factory=dict)
    directories: Mapping[str, Path] = field(default_factory=dict)  # working directory by role

    @contextmanager
    def start(self, only: str | None = None) -> Iterator[dict[str, Replica]]:
        """All replicas (or `only` one), by `role-index`; whatever still runs at the end is killed."""
        cluster = Cluster("job", "default", "cluster.local", self.strategy, self.replicas, addresses=self._addresses())
        started: dict[str, Replica] = {}
        try:
            for role, count in self.replicas.items():
                for index in range(count):
                    name = f"{role}-{index}"
                    if only in (None, name):
                        env = self._environment(cluster, role, index)
                        arguments = [str(self.program), *self.arguments]
                        started[name] = Replica(arguments, env, self.directories.get(role))
            yield started
        finally:
            for replica in started.values():
                replica.end()

    def _addresses(self) -> dict[str, list[str]]:
        roles = {role: count for role, count in self.replicas.items() if role != "evaluator"}
        ports = iter(free_ports(sum(roles.values())))
        return {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in roles.items()}

    def _environment(self, cluster: Cluster, role: str, index: int) -> dict[str, str]:
        env = alone() | {
            contract.ENV_JOB: "job",
            contract.ENV_STRATEGY: self.strategy,
            contract.ENV_ROLE: role,
            contract.ENV_INDEX: str(index),
            contract.ENV_CLUSTER: cluster.to_json(),
            contract.ENV_CHECKPOINT: json.dumps(self.checkpoint),
        }
        if self.run_dir is not None:
            env[contract.ENV_RUN_DIR] = str(self.run_dir)
        return env | self.env


def alone() -> dict[str, str]:
    """This process's environment without anything of a job, and with few threads: several replicas share the cores."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DISTTRAIN_", "TF_"))}
    return clean | {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports
