"""The live display's picture of a job: a row a replica, a progress bar, the last things that happened. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from disttrain import names
from disttrain.api.status import Progress
from disttrain.local import wording
from disttrain.local.lines import Line
from disttrain.local.snapshot import FINISHED, PENDING, SAVED, STARTING, STOPPED, STOPPING, Replica, Snapshot

LINES: Final = 4  # the last things that happened
_AROUND: Final = LINES + 5  # lines of the board that are no replica's row
_FEWEST_ROWS: Final = 3
_STOPPED: Final = "Stopped"  # a stop is a suspension, but nobody here asked for one
_WIDEST: Final = 100  # columns: further apart a row cannot be read across
_STYLES: Final = {
    FINISHED: "green",
    SAVED: "green",
    PENDING: "dim",
    STARTING: "yellow",
    STOPPED: "dim",
    STOPPING: "yellow",
}


def board(snapshot: Snapshot, lines: Sequence[Line], height: int) -> RenderableType:
    """The job as it stands, at most `height` lines; it takes the width it is given, and nothing in it wraps."""
    parts: list[RenderableType] = [
        _headline(snapshot),
        Constrain(_replicas(snapshot.replicas, max(_FEWEST_ROWS, height - _AROUND)), _WIDEST),
        Constrain(_progress(snapshot.status.progress), _WIDEST),
    ]
    parts += [_line(line) for line in lines[-LINES:]]
    return Group(*parts)


def _headline(snapshot: Snapshot) -> Text:
    """`digits  Running  1:02  restarts 1/6  MultiWorkerMirrored`: what matters less is cut off first."""
    status = snapshot.status
    text = _one_line((snapshot.job, "bold"))
    phase = _STOPPED if status.is_true(names.SUSPENDED) else status.phase or names.PHASE_PENDING
    text.append(f"  {phase}", _phase_style(phase))
    text.append(f"  {wording.clock(snapshot.seconds)}")
    if status.restarts:
        text.append(f"  restarts {status.restarts}/{snapshot.backoff_limit}", "yellow")
    text.append(f"  {snapshot.strategy}", "dim")
    return text


def _phase_style(phase: str) -> str:
    return {names.RUNNING: "green", names.SUCCEEDED: "bold green", names.FAILED: "bold red"}.get(phase, "yellow")


def _replicas(replicas: Sequence[Replica], rows: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style="dim")
    table.add_column("replica", no_wrap=True, min_width=max([7, *(len(one.name) for one in replicas)]))
    table.add_column("state", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("step", no_wrap=True, justify="right", min_width=8)
    table.add_column("loss", no_wrap=True, justify="right", min_width=9)
    fitting = len(replicas) if len(replicas) <= rows else rows - 1
    for one in replicas[:fitting]:
        step = "" if one.step is None else str(one.step)
        loss = "" if one.loss is None else wording.number(one.loss)
        table.add_row(one.name, Text(one.state, _style(one)), step, loss)
    rest = Counter(one.state for one in replicas[fitting:])
    if rest:
        states = ", ".join(f"{count} {state}" for state, count in rest.most_common())
        table.add_row(f"{rest.total()} more", Text(states, "dim"), "", "")
    return table


def _style(one: Replica) -> str:
    if one.failed:
        return "bold red"
    return _STYLES.get(one.state, "yellow" if one.state.startswith("waiting") else "green")


def _progress(progress: Progress | None) -> RenderableType:
    if progress is None or progress.step is None:
        return _one_line(("no step yet", "dim"))
    figures = []
    if progress.total_steps:
        figures += [f"{progress.step}/{progress.total_steps}", f"{100 * progress.step // progress.total_steps} %"]
    else:
        figures += [f"step {progress.step}"]
    if progress.estimated_remaining_seconds is not None:
        figures.append(f"ETA {wording.clock(progress.estimated_remaining_seconds)}")
    if not progress.total_steps:
        return _one_line("  ".join(figures))
    row = Table.grid(padding=(0, 2, 0, 0), expand=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    row.add_row(ProgressBar(total=progress.total_steps, completed=progress.step), "  ".join(figures))
    return row


def _line(line: Line) -> Text:
    return _one_line((f"{wording.time_of_day(line.time)} ", "dim"), (line.text, "red" if line.warning else ""))


def _one_line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
