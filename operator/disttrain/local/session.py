"""One call of `disttrain run`: its jobs one after the other, signals, display, and what is said at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from disttrain.core import desired
from disttrain.core.model import Event, Job
from disttrain.local.display import Display, choose
from disttrain.local.errors import EXIT_FAILED, LocalError, reason
from disttrain.local.executor import SETTINGS, Executor, Reactions
from disttrain.local.jobdir import Claim
from disttrain.local.launch import Machine
from disttrain.local.logs import Streams, last_lines
from disttrain.local.node import Node
from disttrain.local.placement import LocalPlacement
from disttrain.local.ports import Ports
from disttrain.local.snapshot import Snapshot, verdict
from disttrain.local.summary import LOG_LINES, Ending, FailedReplica, summary
from disttrain.local.work import Work

TICK_SECONDS: Final = 0.4
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Options:
    """How to run. `output` takes display and summaries, `errors` what must be seen even with --quiet."""

    output: Console
    errors: Console
    quiet: bool
    streamed: Callable[[str, int], bool]
    """Whether the output of a role and index is shown (`--logs`)."""


@dataclass
class Result:
    """What came of it: every job that ran, as an API server would return it, and the exit code."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int = 0


def now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)


def run(works: Sequence[Work], options: Options) -> Result:
    """Run the jobs one after the other. Raises LocalError where one cannot be run; no process is left in any case."""
    return asyncio.run(Session(options).run(works))


class Session:
    """Runs jobs until they are over or the first signal; every job gets its own node and display."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._signal: signal.Signals | None = None
        self._executor: Executor | None = None
        self._display: Display | None = None

    async def run(self, works: Sequence[Work]) -> Result:
        """All jobs in order; after a signal the rest is not begun."""
        loop = asyncio.get_running_loop()
        for number in _STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks for SIGHUP to be ignored
                loop.add_signal_handler(number, self._stop, number)
        result = Result()
        for place, work in enumerate(works):
            status = await self._run(work)
            result.jobs.append(work.with_status(status))
            if verdict(status.status) is not True:
                result.exit_code = EXIT_FAILED
            if self._signal is not None:
                self._tell_not_run(works[place + 1 :])
                result.exit_code = 128 + self._signal
                break
        return result

    def _stop(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if self._display is not None:
            again = self._signal is not None
            text = "killing all replicas" if again else "stopping: every replica is asked to save; once more to kill"
            self._display.say(now(), text)
        self._signal = self._signal or number
        if self._executor is not None:
            self._executor.stop()

    async def _run(self, work: Work) -> Job:
        work.directory.make(work.origin)
        with Claim(work.directory), Ports() as ports, _lifeline() as parent_fd:
            cluster = ports.place(desired.cluster(work.job, SETTINGS))
            machine = Machine(work.origin, dict(os.environ), _cores(), sum(cluster.replicas.values()))
            placement = LocalPlacement(work.spec, cluster, machine, work.directory.path)
            async with Node(work.directory, placement, parent_fd, now) as node:
                executor = Executor(work.job, node, self._reactions(work), now)
                snapshot = await self._shown(work, executor, node)
        self._tell(_ending(work, executor.job, node, snapshot))
        return executor.job

    async def _shown(self, work: Work, executor: Executor, node: Node) -> Snapshot:
        """Run the executor under a display."""
        streams = Streams(self._options.streamed, self._log)
        with choose(self._options.output, self._options.quiet) as display:
            self._display = display
            _introduce(display, work)
            self._executor = executor
            if self._signal is not None:
                executor.stop()
            tick = asyncio.create_task(self._tick(executor, node, streams))
            try:
                await executor.run()
            finally:
                tick.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await tick
                streams.read(_logs(node))
                streams.finish()
                self._executor = self._display = None
        return executor.snapshot()

    def _log(self, replica: str, text: str) -> None:
        if self._display is not None:
            self._display.log(replica, text)

    def _reactions(self, work: Work) -> Reactions:
        def seen(snapshot: Snapshot, events: tuple[Event, ...]) -> None:
            if self._display is not None:
                self._display.show(snapshot, events)

        return Reactions(written=lambda job: work.directory.write_job(work.with_status(job)), seen=seen)

    async def _tick(self, executor: Executor, node: Node, streams: Streams) -> None:
        """What changes without anything happening: logs grow, clocks run."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            streams.read(_logs(node))
            if self._display is not None:
                self._display.show(executor.snapshot())

    def _tell(self, ending: Ending) -> None:
        succeeded = verdict(ending.snapshot.status) is True
        if self._options.quiet and succeeded:
            return
        console = self._options.errors if self._options.quiet else self._options.output
        for line in summary(ending):
            console.print(line, soft_wrap=True, highlight=False)

    def _tell_not_run(self, works: Sequence[Work]) -> None:
        if works:
            names = ", ".join(work.job.name for work in works)
            self._options.errors.print(f"not run: {names}", soft_wrap=True, highlight=False, markup=False)


def _cores() -> int:
    """Those this process may use: a container or `taskset` may have narrowed them down."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _introduce(display: Display, work: Work) -> None:
    roles = ", ".join(f"{work.spec.replicas(role)} {role}" for role in work.spec.roles_in_use())
    display.say(now(), f"{work.job.name}: {work.spec.strategy}, {roles}, in {work.directory.shown}")
    if work.ignored:
        display.say(now(), f"ignored on this machine: {', '.join(work.ignored)}")


def _logs(node: Node) -> dict[tuple[str, int], Path]:
    return {slot: one.log for slot, one in node.latest.items()}


def _ending(work: Work, job: Job, node: Node, snapshot: Snapshot) -> Ending:
    status = job.status
    reports = [one.last_report for one in node.latest.values() if one.last_report is not None]
    saved = [(report.checkpoint_step, report.checkpoint_location) for report in reports]
    if status.checkpoint is not None:
        saved.append((status.checkpoint.step, status.checkpoint.location))
    known = [(step, location) for step, location in saved if step is not None and location is not None]
    return Ending(
        snapshot=snapshot,
        directory=work.directory.shown,
        resume=f"disttrain run --resume {work.directory.shown}",
        saved=max(known, default=None),
        failed=_failed_replica(work, job) if verdict(status) is False else None,
    )


def _failed_replica(work: Work, job: Job) -> FailedReplica | None:
    failure = job.status.last_failure
    if failure is None or failure.role is None or failure.index is None:
        return None
    name = f"{failure.role}-{failure.index}"
    log = work.directory.log(f"{job.name}-{name}", failure.attempt or job.status.attempt)
    return FailedReplica(name, log, last_lines(log, LOG_LINES))


@contextlib.contextmanager
def _lifeline() -> Iterator[int]:
    """The read end of a pipe whose other end only this process has: agents see its end of file when we are gone."""
    try:
        ours, theirs = os.pipe()
    except OSError as error:
        raise LocalError(f"cannot make a pipe: {reason(error)}") from error
    try:
        yield ours
    finally:
        os.close(ours)
        os.close(theirs)


def _leave_terminal() -> None:
    """The terminal is gone, and every write to it would fail: the stop must not fail with it."""
    with Path(os.devnull).open("wb") as nowhere:
        for stream in (1, 2):
            if os.isatty(stream):
                os.dup2(nowhere.fileno(), stream)
