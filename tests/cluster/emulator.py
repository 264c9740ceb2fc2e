"""A real control plane with fake nodes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK.

Everything runs as plain processes of this user on loopback. Each named instance has a state directory under the
cache, where its keys, data, logs and kubeconfig live and which goes away with it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import binaries, cache, pki, processes
from tests.cluster.components import COMPONENTS, Ports, Setup, commands
from tests.cluster.errors import ClusterError
from tests.cluster.rest import Client

NODES = 10
DEFAULT_INSTANCE = "default"
_INSTANCE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,50}")
_START_SECONDS = 90.0
_POLL_SECONDS = 0.05
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "address already in use"
_MIN_FREE_BYTES = 500_000_000
_REAPER = "reaper"
_REAPER_POLL_SECONDS = 1.0


class _PortTakenError(Exception):
    """Somebody took a port between our choosing and the component's binding it."""


@dataclass(frozen=True)
class Emulator:
    """One named instance, running or not. All methods may be called from any process at any time."""

    instance: str = DEFAULT_INSTANCE

    def __post_init__(self) -> None:
        if _INSTANCE_NAME.fullmatch(self.instance) is None:
            raise ClusterError(f"an instance's name is made of a-z, 0-9 and -, not {self.instance!r}")

    @property
    def state(self) -> Path:
        return _runs() / self.instance

    @property
    def kubeconfig(self) -> Path:
        """The administrator's (group system:masters). Exists exactly while the instance is up."""
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.state / "audit.log"

    @contextmanager
    def locked(self, say: cache.Say) -> Iterator[None]:
        """Nobody else starts or stops any instance meanwhile."""
        with cache.exclusive(cache.root() / "run.lock", "starting or stopping an emulator", say):
            yield

    def server(self) -> str:
        """The API server's URL. Raises ClusterError if the instance is not up."""
        try:
            config = json.loads(self.kubeconfig.read_text())
        except FileNotFoundError as error:
            raise ClusterError(f"emulator {self.instance} is not up") from error
        return str(config["clusters"][0]["cluster"]["server"])

    def status(self) -> dict[str, int]:
        """Component -> pid of what runs."""
        return {process.component: process.pid for process in processes.living(self.state)}

    def healthy(self) -> bool:
        """Whether it is up: every component runs and the API server answers that it is ready."""
        if not self.kubeconfig.exists() or not set(COMPONENTS) <= set(self.status()):
            return False
        return self._admin(self.server()).get("/readyz").code == 200

    def up(self, say: cache.Say) -> None:
        """Starts it unless it is up; what an earlier run left half-dead is removed first. Raises ClusterError."""
        if not sys.platform.startswith("linux"):
            raise ClusterError(f"the emulator runs on Linux only, not on {sys.platform}")
        programs = binaries.ensure(say)
        with self.locked(say):
            self.up_locked(programs, say)

    def up_locked(self, programs: Path, say: cache.Say) -> None:
        """As `up`, for a caller that holds the lock and has the programs."""
        sweep(say, but=self.instance)
        if self.healthy():
            return
        if self.state.exists():
            say(f"emulator {self.instance}: removing what an earlier run left")
            self.down_locked()
        free = shutil.disk_usage(_runs()).free
        if free < _MIN_FREE_BYTES:
            raise ClusterError(
                f"no disk space for the emulator: {free / 1e9:.1f} GB free under {_runs()}, "
                f"{_MIN_FREE_BYTES / 1e9:.1f} GB needed; free some or set XDG_CACHE_HOME"
            )
        self._start(programs, say)

    def down(self, say: cache.Say) -> None:
        """Ends it and removes all it made. Nothing happens if it is not there."""
        with self.locked(say):
            self.down_locked()

    def down_locked(self) -> None:
        """As `down`, for a caller that holds the lock."""
        order = {name: place for place, name in enumerate(reversed(COMPONENTS))}
        # Clients first, etcd last; whatever else carries our mark (an operator under test) before all of them.
        running = sorted(processes.living(self.state), key=lambda process: order.get(process.component, -1))
        processes.kill([process for process in running if process.pid != os.getpid()])
        shutil.rmtree(self.state, ignore_errors=True)
        users_path(self.instance).unlink(missing_ok=True)

    def _start(self, programs: Path, say: cache.Say) -> None:
        start = time.monotonic()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                self._start_once(programs)
            except _PortTakenError as error:
                self.down_locked()
                if attempt == _PORT_ATTEMPTS:
                    raise ClusterError(f"no free port for the emulator after {attempt} attempts: {error}") from error
                say(f"emulator {self.instance}: {error}; trying other ports")
            except BaseException:
                self.down_locked()
                raise
            else:
                say(f"emulator {self.instance}: up at {self.server()} in {time.monotonic() - start:.1f} s")
                return

    def _start_once(self, programs: Path) -> None:
        self.state.mkdir(mode=0o700, parents=True)
        setup = Setup.create(pki.Authority(self.state / "pki"), self.state, programs, Ports(*_free_ports(3)))
        started: list[processes.Process] = []
        lines = commands(setup)

        def launch(*names: str) -> None:
            started.extend(processes.spawn(self.state, name, lines[name]) for name in names)

        def wait(what: str, ready: Callable[[], bool]) -> None:
            self._wait(what, ready, started)

        client = self._admin(setup.server)
        launch("etcd", "kube-apiserver")
        wait("the API server to be ready", lambda: client.get("/readyz").code == 200)
        launch("kube-controller-manager", "kube-scheduler", "kwok")
        for index in range(NODES):
            answer = client.post("/api/v1/nodes", _node(f"fake-{index}"))
            if answer.code != 201:
                raise ClusterError(f"the API server refused node fake-{index}: {answer.body}")
        wait("the nodes to be schedulable", lambda: _schedulable(client) == NODES)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait("the default ServiceAccount", lambda: client.get(account).code == 200)
        user = pki.certificate_user(setup.admin)
        partial = self.kubeconfig.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(pki.kubeconfig(setup.server, setup.authority, user))
        partial.rename(self.kubeconfig)

    def _admin(self, server: str) -> Client:
        keys = self.state / "pki"
        return Client(server, keys / "ca.crt", pki.Identity(keys / "admin.crt", keys / "admin.key"))

    def _wait(self, what: str, ready: Callable[[], bool], started: list[processes.Process]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            for process in started:
                if not processes.alive(process):
                    self._explain_death(process.component)
            if time.monotonic() > deadline:
                tails = "\n".join(f"{p.component}: {processes.log_tail(self.state, p.component, 3)}" for p in started)
                raise ClusterError(f"waited {_START_SECONDS:.0f} s for {what}; last words of each component:\n{tails}")
            time.sleep(_POLL_SECONDS)

    def _explain_death(self, component: str) -> None:
        """Raises what a component's end means."""
        tail = processes.log_tail(self.state, component)
        if _PORT_TAKEN in tail:
            raise _PortTakenError(f"{component}: {_PORT_TAKEN}")
        raise ClusterError(f"{component} ended while the emulator was starting; its last words:\n{tail}")


def sweep(say: cache.Say, but: str = "") -> None:
    """Removes shared instances that nobody uses any more, such as those of a test run before a reboot."""
    for path in _runs().glob("*.users"):
        other = Emulator(path.stem)
        if other.instance == but:
            continue
        users = cache.UserCount(path)
        try:
            if users.unused():
                say(f"emulator {other.instance}: nobody uses it any more; removing it")
                other.down_locked()
        finally:
            users.close()


def users_path(instance: str) -> Path:
    """The file whose shared locks count an instance's users; absent for one that stays up until `down`."""
    return _runs() / f"{instance}.users"


class Shared:
    """An instance shared by several processes (a parallel test run): the first starts it, the last ends it.

    If all of them are killed, a small process of the instance's own ends it.
    """

    def __init__(self, instance: str, say: cache.Say) -> None:
        self.emulator = Emulator(instance)
        self._say = say
        self._programs = binaries.ensure(say)
        with self.emulator.locked(say):
            self._users = cache.UserCount(users_path(instance))
            self._users.join()
            self.emulator.up_locked(self._programs, say)
            if not processes.living(self.emulator.state, _REAPER):
                command = [sys.executable, "-m", "tests.cluster", "emulator", "reap", "--name", instance]
                processes.spawn(self.emulator.state, _REAPER, command, PYTHONPATH=str(_checkout()))

    def leave(self) -> None:
        with self.emulator.locked(self._say):
            if self._users.leave():
                self.emulator.down_locked()


def reap(instance: str) -> None:
    """Waits until nobody uses the instance, then ends it: the guard against users that were killed."""
    emulator = Emulator(instance)
    while users_path(instance).exists():
        with emulator.locked(_silent):
            users = cache.UserCount(users_path(instance))
            try:
                if users.unused():
                    emulator.down_locked()
            finally:
                users.close()
        time.sleep(_REAPER_POLL_SECONDS)


def _silent(line: str) -> None:
    """Progress that nobody reads."""


def _checkout() -> Path:
    return Path(__file__).resolve().parents[2]


def _runs() -> Path:
    path = cache.root() / "run"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _free_ports(count: int) -> list[int]:
    """Ports nobody uses now. Held open together, so that they differ; a component that still loses one is retried."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _node(name: str) -> dict[str, object]:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _schedulable(client: Client) -> int:
    """How many nodes carry no taint: a new node has one until KWOK says Ready and the controller manager sees it."""
    answer = client.get("/api/v1/nodes")
    return sum("taints" not in node["spec"] for node in answer.body["items"]) if answer.code == 200 else 0
