"""The display as text: golden boards at three widths, plain lines, and the last words."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from disttrain.local.board import board
from disttrain.local.display import Board, Plain, Quiet, choose
from disttrain.local.lines import Line
from disttrain.local.summary import Ending, FailedReplica, summary
from tests.local.jobs import NOW, progress, replica, snapshot, status

REPLICAS = (
    replica("chief-0", "training", step=350, loss=0.11312),
    replica("worker-0", "waiting for ps-0 +3"),
    replica("worker-1", "failed (SIGKILL)", step=340, loss=float("nan"), failed=True),
    replica("ps-0", "running"),
    replica("evaluator-0", "evaluating", step=300, loss=0.2),
)
LINES = (
    Line(NOW, "worker-1 PodExited (exit code 137): killed by SIGKILL; restarting worker-1 as attempt 2", warning=True),
    Line(NOW, "worker-1 starting again (attempt 2)"),
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def drawn(width: int, *replicas, height: int = 24, lines=LINES, **parts) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, legacy_windows=False)
    parts.setdefault("status", status(phase="Running", restarts=1, progress=progress()))
    console.print(board(snapshot(*(replicas or REPLICAS), **parts), lines, height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


BOARDS = {
    60: [
        "digits  Running  1:02  restarts 1/6  ParameterServer",
        "replica      state                           step       loss",
        "chief-0      training                         350     0.1131",
        "worker-0     waiting for ps-0 +3",
        "worker-1     failed (SIGKILL)                 340        NaN",
        "ps-0         running",
        "evaluator-0  evaluating                       300        0.2",
        "━━━━━━━━━━━━━━━━━━━━                 350/600  58 %  ETA 0:20",
        "12:00:00 worker-1 PodExited (exit code 137): killed by SIGK…",
        "12:00:00 worker-1 starting again (attempt 2)",
    ],
    80: [
        "digits  Running  1:02  restarts 1/6  ParameterServer",
        "replica      state                                               step       loss",
        "chief-0      training                                             350     0.1131",
        "worker-0     waiting for ps-0 +3",
        "worker-1     failed (SIGKILL)                                     340        NaN",
        "ps-0         running",
        "evaluator-0  evaluating                                           300        0.2",
        "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━                         350/600  58 %  ETA 0:20",
        "12:00:00 worker-1 PodExited (exit code 137): killed by SIGKILL; restarting work…",
        "12:00:00 worker-1 starting again (attempt 2)",
    ],
    200: [
        "digits  Running  1:02  restarts 1/6  ParameterServer",
        "replica      state                                                                   step       loss",
        "chief-0      training                                                                 350     0.1131",
        "worker-0     waiting for ps-0 +3",
        "worker-1     failed (SIGKILL)                                                         340        NaN",
        "ps-0         running",
        "evaluator-0  evaluating                                                               300        0.2",
        "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸                                 350/600  58 %  ETA 0:20",
        "12:00:00 worker-1 PodExited (exit code 137): killed by SIGKILL; restarting worker-1 as attempt 2",
        "12:00:00 worker-1 starting again (attempt 2)",
    ],
}


@pytest.mark.parametrize("width", BOARDS)
def test_the_board_without_colour_is_exactly_this(width: int) -> None:
    assert drawn(width) == BOARDS[width]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_nothing_wraps(width: int) -> None:
    assert len(drawn(width)) == len(BOARDS[60])


def test_more_replicas_than_lines_are_counted_by_state() -> None:
    workers = [replica(f"worker-{index}", "training" if index else "waiting for worker-9") for index in range(100)]
    lines = drawn(80, *workers, height=20)
    assert len(lines) <= 20
    assert lines[-4].split() == ["90", "more", "90", "training"]


def test_before_the_first_step_the_board_says_so() -> None:
    assert "no step yet" in drawn(80, status=status(phase="Pending"))


def test_without_a_total_the_board_shows_the_step() -> None:
    known = progress(total=None, estimated_remaining_seconds=None)
    assert "step 350" in drawn(80, status=status(phase="Running", progress=known))


def test_colour_is_only_colour() -> None:
    plain = Console(file=io.StringIO(), width=80, color_system=None)
    colourful = Console(file=io.StringIO(), width=80, color_system="standard", force_terminal=True)
    for console in (plain, colourful):
        console.print(board(snapshot(*REPLICAS, status=status(phase="Running")), LINES, 24))
    from rich.text import Text

    assert Text.from_ansi(colourful.file.getvalue()).plain.split() == plain.file.getvalue().split()  # type: ignore[attr-defined]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "quiet", "kind"),
    [
        (Screen(), "xterm", False, Board),
        (Screen(), "dumb", False, Plain),
        (io.StringIO(), "xterm", False, Plain),
        (Screen(), "xterm", True, Quiet),
    ],
)
def test_the_display_fits_where_the_output_goes(stream, term: str, quiet: bool, kind: type) -> None:
    console = Console(file=stream, _environ={"TERM": term, "FORCE_COLOR": "1"})
    assert type(choose(console, quiet)) is kind


def plain(*shown) -> list[str]:
    console = Console(file=io.StringIO(), width=40, color_system=None)
    with Plain(console) as display:
        for one in shown:
            display.show(one)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_plain_lines_carry_the_time_and_do_not_wrap() -> None:
    long = "w" * 100
    assert plain(snapshot(replica("worker-0", long), after=1)) == [f"12:00:01 worker-0 {long}"]


def test_plain_progress_comes_every_five_seconds_at_most() -> None:
    shown = [snapshot(after=second, status=status(progress=progress(step=second))) for second in range(12)]
    assert [line.split()[2].partition("/")[0] for line in plain(*shown)] == ["1", "6", "11"]


def test_plain_progress_that_stands_still_is_not_repeated() -> None:
    assert len(plain(*(snapshot(after=second, status=status(progress=progress())) for second in range(0, 60, 6)))) == 1


def test_streamed_logs_are_prefixed_and_cannot_use_markup() -> None:
    console = Console(file=io.StringIO(), color_system=None)
    Quiet(console).log("worker-0", "[bold]text[/bold] :smile:")
    assert console.file.getvalue() == "worker-0 | [bold]text[/bold] :smile:\n"  # type: ignore[attr-defined]


# --- the last words ---


def condition(kind: str, reason: str, message: str) -> dict[str, object]:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "last_transition_time": NOW}


def last_words(**parts) -> list[str]:
    ending = {"directory": "disttrain-runs/digits-1a2b3c4d", "resume": "disttrain run --resume D", **parts}
    return [text.plain for text in summary(Ending(**ending))]


def test_success_is_summed_up() -> None:
    known = status(
        conditions=[condition("Succeeded", "ChiefSucceeded", "chief-0 exited 0")],
        restarts=1,
        progress=progress(step=600),
        last_failure={"role": "worker", "index": 1, "exit_code": 137},
        last_resume={"time": NOW, "from_step": 250, "lost_steps": 40},
        evaluation={"step": 600, "metrics": [{"name": "accuracy", "value": "0.958"}]},
        model={"location": "/m", "metrics": [{"name": "accuracy", "value": "0.9639"}]},
        checkpoint={"step": 600, "location": "/c"},
    )
    assert last_words(snapshot=snapshot(status=known)) == [
        "digits succeeded in 1 min 02 s, 600 steps",
        "  result      accuracy 0.9639",
        "  evaluation  accuracy 0.958 (step 600)",
        "  restarts    1 (worker-1 SIGKILL), resumed from step 250 (40 steps repeated)",
        "  model       /m",
        "  checkpoint  /c (step 600)",
        "  logs        disttrain-runs/digits-1a2b3c4d/logs",
    ]


def test_failure_is_explained_by_the_log_of_who_failed() -> None:
    known = status(
        conditions=[condition("Failed", "BackoffLimitExceeded", "worker-1 PodExited (exit code 1)")],
        restarts=1,
        last_failure={"role": "worker", "index": 1, "exit_code": 1},
    )
    failed = FailedReplica("worker-1", Path("/l/digits-worker-1-1.log"), ["Traceback", "ValueError: no"])
    assert last_words(snapshot=snapshot(status=known), failed=failed) == [
        "digits failed after 1 min 02 s: BackoffLimitExceeded: worker-1 PodExited (exit code 1)",
        "  failures  1 (worker-1 exit code 1)",
        "  logs      disttrain-runs/digits-1a2b3c4d/logs",
        "last lines of worker-1 (/l/digits-worker-1-1.log):",
        "  | Traceback",
        "  | ValueError: no",
    ]


def test_a_replica_that_printed_nothing_is_said_to() -> None:
    known = status(conditions=[condition("Failed", "UsageError", "no")])
    words = last_words(snapshot=snapshot(status=known), failed=FailedReplica("worker-1", Path("/l/a.log"), []))
    assert words[-1] == "worker-1 printed nothing (/l/a.log is empty)"


def test_a_stop_says_what_was_saved_and_how_to_go_on() -> None:
    assert last_words(snapshot=snapshot(), saved=(350, "/c")) == [
        "digits stopped; saved step 350 in /c",
        "  go on  disttrain run --resume D",
        "  logs   disttrain-runs/digits-1a2b3c4d/logs",
    ]


def test_the_duration_grows_readable() -> None:
    succeeded = status(conditions=[condition("Succeeded", "ChiefSucceeded", "ok")])
    words = [last_words(snapshot=snapshot(status=succeeded, after=seconds))[0] for seconds in (8, 72, 7500)]
    assert words == ["digits succeeded in 8 s", "digits succeeded in 1 min 12 s", "digits succeeded in 2 h 05 min"]
