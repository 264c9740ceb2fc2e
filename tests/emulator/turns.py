"""Whose turn it is with the one operator: many tests that only use it, or one that stops it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shared(directory: Path) -> Iterator[None]:
    """With others that only use the operator."""
    with _locked(directory / "turn.lock", fcntl.LOCK_SH, directory):
        yield


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """With nobody else."""
    with _locked(directory / "turn.lock", fcntl.LOCK_EX, directory):
        yield


@contextmanager
def _locked(path: Path, mode: int, directory: Path) -> Iterator[None]:
    with path.open("a") as turn:
        # Whoever wants to be alone keeps the gate shut while waiting, or the others' turns might never end.
        with (directory / "gate.lock").open("a") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(turn, mode)
        yield
