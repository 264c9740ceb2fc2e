"""Starting, signalling and reaping processes. Everything here is called from the agent's main thread only.

A pid is signalled only while its process cannot have been reaped: exits are peeked at (`waitid` with WNOWAIT), acted
on, and reaped last, so a recycled pid is never hit.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Final, Mapping, Optional, Sequence, Tuple

from disttrain_agent.log import log

PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)


@dataclass(frozen=True)
class Child:
    """The training process, the leader of a session and process group of its own (pgid == pid)."""

    pid: int
    guard: Optional[subprocess.Popen[bytes]]

    def signal(self, number: int) -> None:
        """To the process itself. It is not reaped yet, so the pid is its own."""
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        """To every process in its group, its own children included."""
        _signal_group(self.pid, number)

    def group_is_gone(self) -> bool:
        """Whether no process is left in the group, the child included."""
        return not _signal_group(self.pid, 0)

    def dismiss_guard(self) -> None:
        """Before the agent ends in good order: the guard must not mistake this for the agent's death."""
        if self.guard is not None:
            self.guard.kill()
            self.guard.wait()


def spawn(command: Sequence[str], environ: Mapping[str, str], report_fd: int) -> Child:
    """Start the command with stdin empty, our stdout and stderr, and `report_fd` inherited.

    Raises OSError when the system cannot start another process. A command that cannot be executed is an exit with 126
    or 127, as in a shell.
    """
    process = subprocess.Popen(
        [*_isolated("launch.py"), str(os.getpid()), *command],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        pass_fds=(report_fd,),
        start_new_session=True,
    )
    process.returncode = 0  # reaped by `reap`, never by this object
    return Child(process.pid, None if os.getpid() == 1 else _start_guard(process.pid))


def adopt_orphans() -> None:
    """Processes whose parent died become our children to reap: PID 1 has them anyway, others must ask (Linux)."""
    if os.getpid() == 1 or sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    except (ImportError, OSError, AttributeError) as error:
        log(f"orphans will not be reaped: {error}")


def peek() -> Optional[Tuple[int, int]]:
    """(pid, exit code as a shell has it) of a child that has ended; None if there is none. Then call `reap`.

    macOS has `os.waitid` from Python 3.13 on; before, the process is reaped here already.
    """
    try:
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return None
            exited = ended.si_code == os.CLD_EXITED
            return ended.si_pid, ended.si_status if exited else 128 + ended.si_status
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    code = os.waitstatus_to_exitcode(status)
    return (pid, code if code >= 0 else 128 - code) if pid else None


def reap(pid: int) -> None:
    """Give a peeked-at process' pid back to the system."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # `peek` had to


def _isolated(program: str) -> Sequence[str]:
    """A Python that runs one of our single-file programs without the user's PYTHON* settings and site packages."""
    source = pkgutil.get_data(__package__ or "disttrain_agent", program)
    if source is None or not sys.executable:
        raise OSError(f"the Python that runs the agent cannot start {program}")
    return (sys.executable, "-I", "-S", "-c", source.decode())


def _start_guard(group: int) -> Optional[subprocess.Popen[bytes]]:
    """Failing to is no reason to fail the training: on Linux PR_SET_PDEATHSIG has the child already."""
    try:
        return subprocess.Popen(
            [*_isolated("guard.py"), str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        log(f"no guard: if this agent is killed, processes of its child may survive it: {error}")
        return None


def _signal_group(group: int, number: int) -> bool:
    """False if there is nothing left to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # PermissionError: macOS, for a group of zombies
        return False
    return True
