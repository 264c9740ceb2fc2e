"""A node: started outside (`boot`), which makes its namespaces; then process 1 inside (`init`), which starts the rest.

Stands on the standard library alone, and is run as `python -m tests.cluster.netns.node boot|init FILE`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COMPONENT = "DISTTRAIN_TEST_COMPONENT"  # as in tests.cluster.processes
_WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.05
_RESTART_SECONDS = 1.0
_RUN = Path("/run")
# Below these the components write to fixed paths. The machine's own are shown, writes stay in the node's memory.
_OVERLAID = ("/etc", "/opt", "/var")
# The kubelet insists on these. They are the machine's, so it is shown what it wants to see instead.
_SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SHARED, _MNT_DETACH = 4096, 16384, 1 << 18, 1 << 20, 2


@dataclass(frozen=True)
class Component:
    """A program that is kept running. It is started once all paths in `after` exist."""

    name: str
    command: list[str]
    after: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NodeSetup:
    """All that a node needs to know; `network` is its namespace, `networks` are those of all nodes, as files."""

    name: str
    network: str
    networks: list[str]
    state: str
    cgroups: list[str]
    hierarchies: dict[str, str]
    binds: dict[str, str]
    path: str
    components: list[Component]

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, file: Path) -> NodeSetup:
        data: dict[str, Any] = json.loads(file.read_text())
        return cls(**{**data, "components": [Component(**each) for each in data["components"]]})


def boot(file: Path) -> None:
    """Joins the node's control groups and becomes process 1 of new namespaces; all in them die with us."""
    setup = NodeSetup.load(file)
    for directory in setup.cgroups:
        Path(directory, "cgroup.procs").write_text(str(os.getpid()))
    namespaces = ["--cgroup", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=SIGKILL"]
    init = [sys.executable, "-m", "tests.cluster.netns.node", "init", str(file)]
    os.execvp(
        "nsenter", ["nsenter", f"--net={setup.network}", "unshare", *namespaces, "--propagation", "private", *init]
    )


def init(file: Path) -> None:
    """Process 1: file systems, then the components, restarted whenever they end."""
    setup = NodeSetup.load(file)
    socket.sethostname(setup.name)
    _mount_all(setup)
    for sysctl in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        with contextlib.suppress(FileNotFoundError):  # without br_netfilter nothing needs to be switched on
            Path("/proc/sys", sysctl).write_text("1")
    Supervisor(setup).run()


def _mount_all(setup: NodeSetup) -> None:
    _mount("proc", "/proc", "proc")
    for network in setup.networks:  # those we were born with: we would keep another node's alive beyond its end
        with contextlib.suppress(FileNotFoundError):  # made after us
            _unmount(network)
    _unmount("/sys/fs/cgroup")
    _mount("sysfs", "/sys", "sysfs")
    _mount("cgroup", "/sys/fs/cgroup", "tmpfs", data="mode=755")
    for directory, options in setup.hierarchies.items():
        target = Path("/sys/fs/cgroup", directory)
        target.mkdir()
        _mount("cgroup", str(target), "cgroup", data=options)
    _mount("run", str(_RUN), "tmpfs", data="mode=755")
    for name in ("lock", "netns", "containerd"):
        (_RUN / name).mkdir()
    (_RUN / "state").mkdir()
    _mount(setup.state, str(_RUN / "state"), flags=_MS_BIND)
    for lower in _OVERLAID:
        upper, work = (_RUN / "overlay" / kind / lower.lstrip("/") for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        _mount("overlay", lower, "overlay", data=f"lowerdir={lower},upperdir={upper},workdir={work}")
    # Wherever the cache is, below an overlaid directory too, what is written to the state reaches the disk.
    _mount(str(_RUN / "state"), setup.state, flags=_MS_BIND)
    for source, inside in setup.binds.items():
        Path(source).mkdir(parents=True, exist_ok=True)
        Path(inside).mkdir(parents=True, exist_ok=True)
        _mount(source, inside, flags=_MS_BIND)
    for name, value in _SYSCTLS.items():
        shown = _RUN / name.replace("/", "-")
        shown.write_text(value + "\n")
        _mount(str(shown), f"/proc/sys/{name}", flags=_MS_BIND)
    _mount("", "/", flags=_MS_REC | _MS_SHARED)  # pods see what is mounted for them later


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError with the target."""
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mounting {kind or source}: {os.strerror(number)}", target)


def _unmount(target: str) -> None:
    """Everything mounted there and below."""
    if _LIBC.umount2(target.encode(), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unmounting: {os.strerror(number)}", target)


_LIBC = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """Keeps the components running and collects the dead, as process 1 must."""

    def __init__(self, setup: NodeSetup) -> None:
        self._setup = setup
        self._running: dict[int, Component] = {}

    def run(self) -> None:
        """Never returns: the node ends when its process 1 is killed."""
        for component in self._setup.components:
            self._await(component)
            self._start(component)
        while True:
            pid, status = os.wait()
            if pid not in self._running:  # an orphan, such as a container's monitor
                continue
            component = self._running.pop(pid)
            _say(f"{component.name} ended ({os.waitstatus_to_exitcode(status)}); starting it again")
            time.sleep(_RESTART_SECONDS)
            self._start(component)

    def _await(self, component: Component) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while missing := [path for path in component.after if not Path(path).exists()]:
            if time.monotonic() > deadline:
                _say(f"waited {_WAIT_SECONDS:.0f} s for {missing[0]}; starting {component.name} all the same")
                return
            time.sleep(_POLL_SECONDS)

    def _start(self, component: Component) -> None:
        name = f"{self._setup.name}-{component.name}"
        environment = {**os.environ, "PATH": self._setup.path, "HOME": "/root", COMPONENT: name}
        with Path(self._setup.state, f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                component.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd="/"
            )
        self._running[process.pid] = component
        process.returncode = 0  # we wait for it ourselves: Popen must not, and must not complain


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main(arguments: list[str]) -> None:
    verb, file = arguments
    {"boot": boot, "init": init}[verb](Path(file))


if __name__ == "__main__":
    main(sys.argv[1:])
