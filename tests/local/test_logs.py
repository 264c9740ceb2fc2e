"""Logs of replicas as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from disttrain.local.logs import Follower, Streams, last_lines


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


def test_the_last_lines_of_a_long_log_are_found_from_its_end(log: Path) -> None:
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(5000)))
    assert [line.split()[1] for line in last_lines(log, 3)] == ["4997", "4998", "4999"]


def test_a_short_log_is_shown_whole(log: Path) -> None:
    log.write_text("one\ntwo")
    assert last_lines(log, 15) == ["one", "two"]


def test_a_log_that_is_not_there_has_no_lines(log: Path) -> None:
    assert last_lines(log, 15) == []


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b[2J\x1b[Hhome", "home"),
        (b"10 %\r20 %\r30 %\r", "30 %"),
        (b"caf\xc3\xa9 \xff", "café \N{REPLACEMENT CHARACTER}"),
        (b"a\x00\x08b", "ab"),
        (b"a\tb", "a\tb"),
    ],
)
def test_output_cannot_steer_the_terminal(log: Path, raw: bytes, shown: str) -> None:
    log.write_bytes(raw + b"\n")
    assert last_lines(log, 1) == [shown]


def test_a_follower_tells_each_line_once_it_is_complete(log: Path) -> None:
    told: list[str] = []
    follower = Follower(log, told.append)
    for chunk, expected in (("one\ntw", ["one"]), ("o\n", ["one", "two"]), ("", ["one", "two"])):
        with log.open("a") as file:
            file.write(chunk)
        follower.read()
        assert told == expected


def test_the_last_line_needs_no_end_when_the_writer_is_gone(log: Path) -> None:
    told: list[str] = []
    log.write_text("one\ntwo")
    Follower(log, told.append).read(final=True)
    assert told == ["one", "two"]


def test_a_line_without_end_is_told_in_pieces_rather_than_kept_for_ever(log: Path) -> None:
    told: list[str] = []
    log.write_text("x" * 100_000)
    Follower(log, told.append).read()
    assert "".join(told) == "x" * 100_000


def test_a_log_is_followed_from_before_it_exists(log: Path) -> None:
    told: list[str] = []
    follower = Follower(log, told.append)
    follower.read()
    log.write_text("one\n")
    follower.read()
    assert told == ["one"]


def test_a_stream_goes_on_with_the_log_of_the_next_attempt(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    streams = Streams(lambda role, index: role == "worker", lambda replica, line: told.append((replica, line)))
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    first.write_text("one")
    other.write_text("not chosen\n")
    streams.read({("worker", 0): first, ("ps", 0): other})
    second.write_text("two")
    streams.read({("worker", 0): second, ("ps", 0): other})
    streams.finish()
    assert told == [("worker-0", "one"), ("worker-0", "two")]
