"""The log files of a job's replicas: follow them, and read their last lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

_BLOCK: Final = 65_536
_LONGEST_LINE: Final = 16_384
# ECMA-48 control sequences, operating system commands, and the rest
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a log, without line ends; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            start = end
            data = b""
            while start > 0 and data.count(b"\n") <= count:
                start = max(0, start - _BLOCK)
                file.seek(start)
                data = file.read(end - start)
    except FileNotFoundError:
        return []
    return [_readable(line) for line in data.splitlines()[-count:]]


def _readable(line: bytes) -> str:
    """One line of a program's output as it would look on a terminal, without the power to move the cursor.

    Progress bars overwrite themselves with carriage returns: what is left standing is the last non-empty part.
    """
    text = _ESCAPE.sub("", line.decode("utf-8", errors="replace"))
    parts = [part for part in text.split("\r") if part.strip()]
    shown = parts[-1] if parts else ""
    return "".join(char for char in shown if char == "\t" or char.isprintable())


@dataclass
class Follower:
    """Gives each new line of one growing file to `tell`; call `read` now and then and once after the writer ended."""

    path: Path
    tell: Callable[[str], None]
    _offset: int = 0
    _rest: bytes = field(default=b"", repr=False)

    def read(self, final: bool = False) -> None:
        """Tell what was added since the last call; with `final` also a last line that has no line end."""
        while True:
            chunk = self._next()
            if not chunk:
                break
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self.tell(_readable(line))
            if len(self._rest) > _LONGEST_LINE:
                self.tell(_readable(self._rest))
                self._rest = b""
        if final and self._rest:
            self.tell(_readable(self._rest))
            self._rest = b""

    def _next(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(_BLOCK)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk


class Streams:
    """Passes on what the chosen replicas print, line by line, across their restarts.

    `chosen` says of a role and index whether to stream it; `tell` gets the replica's name and the line.
    """

    def __init__(self, chosen: Callable[[str, int], bool], tell: Callable[[str, str], None]) -> None:
        self._chosen = chosen
        self._tell = tell
        self._open: dict[tuple[str, int], Follower] = {}

    def read(self, logs: Mapping[tuple[str, int], Path]) -> None:
        """Pass on what is new. `logs` holds the current log of every replica; a changed path ends the old one."""
        for slot, path in logs.items():
            if not self._chosen(*slot):
                continue
            follower = self._open.get(slot)
            if follower is None or follower.path != path:
                if follower is not None:
                    follower.read(final=True)
                follower = self._open[slot] = Follower(path, partial(self._tell, f"{slot[0]}-{slot[1]}"))
            follower.read()

    def finish(self) -> None:
        """Pass on the rest."""
        for follower in self._open.values():
            follower.read(final=True)
