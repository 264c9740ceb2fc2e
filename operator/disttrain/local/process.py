"""One pod's process: the agent, which runs the training process as its child."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from disttrain.local.errors import EXIT_FAILED, LocalError, reason
from disttrain.local.jobdir import shown
from disttrain.local.launch import Launch

# The agent kills its child shortly before the grace period ends; this is for an agent that cannot even do that.
KILL_MARGIN_SECONDS: Final = 5.0


class AgentProcess:
    """A started agent, the leader of a session of its own: the terminal's Ctrl-C must not reach it past us."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, launch: Launch, log: Path, inherited: int) -> AgentProcess:
        """Start the process with its output in `log` and the file descriptor `inherited` open.

        Raises LocalError if the log cannot be written or the system has no room for another process.
        """
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *launch.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=launch.directory,
                    env=launch.env,
                    pass_fds=(inherited,),
                    start_new_session=True,
                )
        except OSError as error:
            raise LocalError(
                f"cannot start the process that logs to {shown(log)}: {reason(error)}", EXIT_FAILED
            ) from error
        return cls(process)

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._process.pid

    async def wait(self) -> int:
        """The exit code once it has ended, 128 + n after signal n. Nothing it started in its group is left then."""
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)  # as the kernel does when a container's first process ends
        return code if code >= 0 else 128 - code

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, and SIGKILL to the group if it still runs after the grace period; returns when it has ended."""
        self.terminate()
        try:
            async with asyncio.timeout(grace_seconds + KILL_MARGIN_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def terminate(self) -> None:
        """Ask it to save and end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all it started at once."""
        if self._process.returncode is not None:
            return
        for pid in descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS, for a zombie's group
            os.killpg(self._process.pid, number)


def descendants(pid: int) -> list[int]:
    """The processes below this one, parents first. Empty where there is no /proc: there the agent alone sees to it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # proc_pid_stat(5): "pid (comm) state ppid ..."; comm may hold anything, so count from its last bracket.
            parent = int(entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found[1:]
