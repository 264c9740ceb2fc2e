"""The shell around `supervision`: signals, exits, reports, peers and time become its events; its actions become real.

Everything runs on one event loop in the main thread. Nothing in it blocks but the fork of the training process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from datetime import datetime, timezone
from typing import Any, Coroutine, Final, List, Optional, Sequence

from disttrain_agent import contract, environment, gate, last_word, leader, process, supervision
from disttrain_agent.environment import Settings
from disttrain_agent.log import log
from disttrain_agent.progress import Progress, fold
from disttrain_agent.status import Document, Snapshot, document
from disttrain_agent.status_server import StatusServer
from disttrain_agent.supervision import Phase

DATAGRAMS_AT_ONCE: Final = 64  # then other events have their turn, whatever the child floods us with
DATAGRAMS_AT_END: Final = 4096
GROUP_END_SECONDS: Final = 2.0
GROUP_POLL_SECONDS: Final = 0.01
LINGER_SECONDS: Final = 2 * gate.LONGEST_PAUSE_SECONDS


class Agent:
    """Supervises one command in one task of a job; `run` once."""

    def __init__(self, settings: Settings, command: Sequence[str]) -> None:
        self._settings = settings
        self._command = command
        self._rules = supervision.Rules.of(settings.grace, settings.holds)
        self._state = supervision.State()
        self._progress = Progress()
        self._changed = datetime.now(timezone.utc)
        self._error: Optional[str] = None
        self._opened_at = -LINGER_SECONDS
        self._child: Optional[process.Child] = None
        self._timer: Optional[asyncio.TimerHandle] = None
        self._tasks: List[asyncio.Task[None]] = []
        self._gate = gate.Gate(settings, self._touch)
        self._server = StatusServer(self.document)
        self._reports, self._child_reports = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    async def run(self) -> int:
        """Until the child has ended, or will not be started. Returns the exit code of the agent."""
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._listen()
        try:
            port = await self._server.start(self._settings.port, self._settings.on_loopback)
        except OSError as error:
            self._fail(f"cannot listen on port {self._settings.port} ({contract.ENV_AGENT_PORT}): {_said(error)}")
            self._handle(supervision.CannotStart(contract.EXIT_CANNOT_SERVE, contract.REASON_CANNOT_SERVE))
        else:
            identity = self._settings.identity
            log(f"{identity.job} {identity.role}-{identity.index}, attempt {identity.attempt}, status on port {port}")
            self._start(self._pass_gate())
        await self._done
        return await self._finish()

    def document(self) -> Document:
        """What `GET /v1/status` shows now."""
        waiting = self._gate.waiting_for() if self._state.phase is Phase.WAITING else ()
        return document(
            Snapshot(self._settings.identity, self._state, self._progress, self._changed, waiting, self._error)
        )

    # --- events ---

    def _listen(self) -> None:
        process.adopt_orphans()
        self._loop.add_signal_handler(signal.SIGCHLD, self._on_exits)
        for number in supervision.FORWARDED_SIGNALS:
            self._loop.add_signal_handler(number, self._on_signal, number)
        self._reports.setblocking(False)
        self._loop.add_reader(self._reports, self._on_reports)
        if self._settings.parent_fd is not None:
            os.set_inheritable(self._settings.parent_fd, False)
            os.set_blocking(self._settings.parent_fd, False)
            self._loop.add_reader(self._settings.parent_fd, self._on_parent, self._settings.parent_fd)

    def _on_signal(self, number: int) -> None:
        log(f"received {signal.Signals(number).name}")
        self._handle(supervision.Signalled(number))

    def _on_exits(self) -> None:
        """SIGCHLD, which may stand for several exits, of orphans too. What is left of the child's group is killed
        while the child still holds its pid, so that the number cannot mean another group yet."""
        while True:
            ended = process.peek()
            if ended is None:
                return
            pid, code = ended
            if self._child is not None and pid == self._child.pid:
                self._handle(supervision.ChildExited(code))
            process.reap(pid)

    def _on_parent(self, descriptor: int) -> None:
        try:
            if os.read(descriptor, 4096):
                return
        except BlockingIOError:
            return
        except OSError as error:
            log(f"{contract.ENV_PARENT_FD}: {error.strerror}")
        self._loop.remove_reader(descriptor)
        log("the process that started this agent is gone")
        self._handle(supervision.ParentGone())

    def _on_reports(self, limit: int = DATAGRAMS_AT_ONCE) -> None:
        for _ in range(limit):
            try:
                datagram = self._reports.recv(contract.REPORT_MAX_BYTES + 1)
            except BlockingIOError:
                return
            except ConnectionError:  # macOS, when the last process with the other end has gone
                self._loop.remove_reader(self._reports)
                return
            before, self._progress = self._progress, fold(self._progress, datagram, self._loop.time())
            if self._progress.ignored == before.ignored:
                self._touch()

    async def _pass_gate(self) -> None:
        try:
            await self._gate.wait()
        except gate.PeersMissingError as error:
            self._fail(str(error))
            self._handle(supervision.CannotStart(contract.EXIT_PEERS_MISSING, contract.REASON_PEERS_MISSING))
        else:
            self._opened_at = self._loop.time() if self._settings.peers() else -LINGER_SECONDS
            self._handle(supervision.GateOpened())

    async def _watch_leader(self) -> None:
        await leader.until_gone(self._settings)
        self._handle(supervision.LeaderGone())

    def _handle(self, event: supervision.Event) -> None:
        before = self._state
        self._state, actions = supervision.decide(self._rules, before, event, self._loop.time())
        if self._state.phase is not before.phase:
            self._entered(self._state.phase)
        for action in actions:
            self._perform(action)
        self._set_timer()

    # --- what follows ---

    def _entered(self, phase: Phase) -> None:
        self._touch()
        if phase is Phase.HOLDING:
            role, index = self._settings.cluster.leader()
            log(f"stopping when {role}-{index} has ended, in {self._rules.limit:g} s at the latest")
            self._start(self._watch_leader())
        elif phase is Phase.STOPPING:
            log("stopping the training process")
        elif phase is Phase.EXITED and not self._done.done():
            self._done.set_result(None)

    def _perform(self, action: supervision.Action) -> None:
        if isinstance(action, supervision.Spawn):
            self._spawn()
        elif self._child is not None and isinstance(action, supervision.SignalChild):
            self._child.signal(action.number)
        elif self._child is not None and isinstance(action, supervision.SignalGroup):
            self._child.signal_group(action.number)
        elif self._child is not None and isinstance(action, supervision.KillGroup):
            if self._state.phase is not Phase.EXITED:
                self._fail("the training process did not end within the grace period and was killed")
            self._child.signal_group(signal.SIGKILL)

    def _spawn(self) -> None:
        env = environment.for_child(self._settings, os.environ, self._child_reports.fileno())
        if env.get("PYTHONPATH", "").startswith(environment.INJECT_DIRECTORY):
            log("TF_CONFIG is too long for an environment string: Python processes compose it when they start")
        try:
            self._child = process.spawn(self._command, env, self._child_reports.fileno())
        except OSError as error:
            self._fail(f"cannot start a process: {error}")
            self._loop.call_soon(self._handle, supervision.ChildExited(contract.EXIT_CANNOT_EXECUTE))
            return
        log(f"started {self._command[0]} as process {self._child.pid}")
        self._child_reports.close()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wake_at = self._state.wake_at()
        self._timer = None if wake_at is None else self._loop.call_at(wake_at, self._handle, supervision.Tick())

    def _touch(self) -> None:
        self._changed = datetime.now(timezone.utc)

    def _fail(self, why: str) -> None:
        log(why)
        self._error = why

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """A task that fails of a fault of ours ends the agent: better than a pod that waits for nothing."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._done.done():
            self._done.set_exception(error)

    async def _finish(self) -> int:
        for task in self._tasks:
            task.cancel()
        await self._end_group()
        self._on_reports(DATAGRAMS_AT_END)
        last_word.write(self.document(), self._settings.termination_log, self._settings.termination_log_is_ours)
        if self._child is not None:
            self._child.dismiss_guard()
        await self._linger()
        self._server.close()
        log(f"exit {self._state.exit_code} ({self._state.reason})")
        code = self._state.exit_code
        return contract.EXIT_INTERNAL_ERROR if code is None else code

    async def _linger(self) -> None:
        """A program that had nothing left to do ends before a slower peer has looked here, and that peer would wait
        for an agent that is gone. So after a quick success this one is to be seen for a while."""
        if self._state.exit_code == 0 and not self._state.stopped:
            await asyncio.sleep(max(0.0, self._opened_at + LINGER_SECONDS - self._loop.time()))

    async def _end_group(self) -> None:
        """Until the child's group, killed by now, is gone: its ports and files must be free for whoever comes next.
        Bounded: a process in uninterruptible sleep may stay."""
        if self._child is None:
            return
        deadline = self._loop.time() + GROUP_END_SECONDS
        while not self._child.group_is_gone() and self._loop.time() < deadline:  # noqa: ASYNC110  (no event tells it)
            await asyncio.sleep(GROUP_POLL_SECONDS)


def _said(error: OSError) -> str:
    """The system's words alone; asyncio and `socket` add theirs."""
    return os.strerror(error.errno) if error.errno else str(error)
