"""How a run is shown: redrawn in place on a terminal, plain lines elsewhere, nothing with --quiet."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from disttrain.core.model import Event
from disttrain.local import wording
from disttrain.local.board import board
from disttrain.local.lines import PROGRESS_SECONDS, Line, changes, progress
from disttrain.local.snapshot import Snapshot

_PREFIX_STYLES: Final = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta", "bright_blue")
_KEPT_LINES: Final = 20


class Output(Console):
    """A console whose reader may leave (`| head`): the run is then stopped as cleanly as when its terminal hangs up."""

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())  # or Python's own flush at exit would fail once more
        os.close(nowhere)
        signal.raise_signal(signal.SIGHUP)


class Display(Protocol):
    """What the run tells of one job. Use as a context manager: it leaves the terminal as it found it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def show(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> None:
        """The job has changed, or time has passed."""
        ...

    def say(self, time: datetime, text: str) -> None:
        """Something about the run itself."""
        ...

    def log(self, replica: str, text: str) -> None:
        """A line that a replica printed (`--logs`)."""
        ...


class Quiet:
    """Shows only what was asked for by name: logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._styles: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def show(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> None:
        """Nothing."""

    def say(self, time: datetime, text: str) -> None:
        """Nothing."""

    def log(self, replica: str, text: str) -> None:
        """`worker-0 | text`, each replica in a colour of its own."""
        style = self._styles.setdefault(replica, _PREFIX_STYLES[len(self._styles) % len(_PREFIX_STYLES)])
        self._print(Text.assemble((f"{replica} |", style), f" {text}"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)


class Plain(Quiet):
    """One line for each thing that happens, and for progress every few seconds: for files, pipes and CI logs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._before: Snapshot | None = None
        self._told_at: datetime | None = None
        self._told_step: int | None = None

    @override
    def show(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> None:
        """Tell what is new."""
        for line in changes(self._before, snapshot, events):
            self._line(line)
        self._before = snapshot
        self._tell_progress(snapshot)

    @override
    def say(self, time: datetime, text: str) -> None:
        """A line."""
        self._line(Line(time, text))

    def _tell_progress(self, snapshot: Snapshot) -> None:
        step = snapshot.status.progress.step if snapshot.status.progress else None
        if not step or step == self._told_step or snapshot.status.completion_time is not None:
            return
        if self._told_at is None or (snapshot.time - self._told_at).total_seconds() >= PROGRESS_SECONDS:
            self._told_at, self._told_step = snapshot.time, step
            self._line(Line(snapshot.time, progress(snapshot.status.progress)))

    def _line(self, line: Line) -> None:
        style = "red" if line.warning else ""
        self._print(Text.assemble((wording.time_of_day(line.time), "dim"), " ", (line.text, style)))


class Board(Quiet):
    """The board of `disttrain.local.board`, redrawn in place; what replicas print scrolls by above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._before: Snapshot | None = None
        self._lines: list[Line] = []

    @override
    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    @override
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.__exit__(kind, error, tb)

    @override
    def show(self, snapshot: Snapshot, events: Iterable[Event] = ()) -> None:
        """Redraw."""
        self._lines += changes(self._before, snapshot, events)
        self._before = snapshot
        self._redraw()

    @override
    def say(self, time: datetime, text: str) -> None:
        """A line below the board."""
        self._lines.append(Line(time, text))
        self._redraw()

    def _redraw(self) -> None:
        del self._lines[:-_KEPT_LINES]
        if self._before is not None:
            self._live.update(board(self._before, self._lines, self._console.height), refresh=True)


def choose(console: Console, quiet: bool) -> Display:
    """The display for where the output goes."""
    if quiet:
        return Quiet(console)
    # Not console.is_terminal: FORCE_COLOR makes that true for a pipe, where nothing can be redrawn.
    redrawn = console.file.isatty() and not console.is_dumb_terminal
    return Board(console) if redrawn else Plain(console)
