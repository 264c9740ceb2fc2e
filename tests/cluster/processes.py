"""The processes of a test cluster: started, found again, and ended, without ever touching anybody else's.

A process is ours if its environment says so (`MARK` names the cluster's state directory). That needs no pid files:
what a killed predecessor left is found all the same, and a reused pid is never mistaken for one of ours. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cache
from tests.cluster.errors import ClusterError

MARK = "DISTTRAIN_TEST_CLUSTER"
COMPONENT = "DISTTRAIN_TEST_COMPONENT"


@dataclass(frozen=True)
class Process:
    """A living process of a cluster. `started` (clock ticks since boot) tells it from a later one with its pid."""

    pid: int
    started: int
    component: str


def spawn(state: Path, component: str, command: Sequence[str | Path], **environment: str) -> Process:
    """Starts a component in a session of its own, with its output in `<state>/<component>.log`.

    It outlives us: whoever ends the cluster ends it. Raises ClusterError if the program cannot be run.
    """
    log = log_path(state, component)
    variables = cache.environment(**{MARK: str(state), COMPONENT: component}, **environment)
    with log.open("ab") as output:
        try:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=state,
                start_new_session=True,
            )
        except OSError as error:
            raise ClusterError(f"cannot start {component}: {command[0]}: {error.strerror}") from error
    _CHILDREN.append(child)
    started = _start_time(child.pid)
    # 0: it has ended already; nothing else can have its pid before we reap it.
    return Process(child.pid, started or 0, component)


# Our own children must be reaped, or they stay as zombies for as long as the test run lasts.
_CHILDREN: list[subprocess.Popen[bytes]] = []


def log_path(state: Path, component: str) -> Path:
    return state / f"{component}.log"


def log_tail(state: Path, component: str, lines: int = 12) -> str:
    """The last lines of a component's log, for an error message."""
    try:
        text = log_path(state, component).read_text(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"


def living(state: Path, component: str | None = None) -> list[Process]:
    """Every living process that was started for this state directory, or those of one component."""
    _reap()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        name = _component_of(pid, state)
        if name is None or component not in (None, name):
            continue
        started = _start_time(pid)
        if started is not None:
            found.append(Process(pid, started, name))
    return found


def kill(processes: Sequence[Process], timeout: float = 10.0) -> None:
    """SIGKILL to each, in the order given, then waits until all are gone.

    Not SIGTERM: an API server whose etcd went first waits for it for minutes. Raises ClusterError if one stays.
    """
    _reap()
    descriptors = [fd for process in processes if (fd := _open(process)) is not None]
    try:
        for fd in descriptors:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        deadline = time.monotonic() + timeout
        for fd in descriptors:
            if not _ended(fd, max(0.0, deadline - time.monotonic())):
                names = ", ".join(f"{process.component} (pid {process.pid})" for process in processes)
                raise ClusterError(f"some of {names} did not end within {timeout:.0f} s of SIGKILL")
    finally:
        for fd in descriptors:
            os.close(fd)
        _reap()


def restart(state: Path, process: Process) -> Process:
    """Ends a component and starts it again with the command line it had."""
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    kill([process])
    return spawn(state, process.component, command)


def send(process: Process, number: signal.Signals) -> bool:
    """Sends a signal to exactly this process. False if it is gone."""
    fd = _open(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def alive(process: Process) -> bool:
    """Whether it still runs (a zombie does not)."""
    _reap()
    return _start_time(process.pid) == process.started


def _open(process: Process) -> int | None:
    """A descriptor of the process, or None if it is gone; checked after opening, so a reused pid is not hit."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if _start_time(process.pid) == process.started:
        return fd
    os.close(fd)
    return None


def _ended(fd: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _start_time(pid: int) -> int | None:
    """proc(5), /proc/PID/stat field 22; None if there is no such process or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name, field 2, may hold spaces and brackets
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _component_of(pid: int, state: Path) -> str | None:
    """The component's name if the process belongs to this state directory."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if f"{MARK}={state}".encode() not in variables:
        return None
    prefix = f"{COMPONENT}=".encode()
    return next((value[len(prefix) :].decode() for value in variables if value.startswith(prefix)), None)


def _reap() -> None:
    _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]
