"""The directory of one job on this machine: its manifest and status, logs, checkpoints and model.

::

    <run dir>/<job>-<first 8 of uid>/
      job.json          the job and its status, rewritten with every change: what `--resume` goes on from
      origin            where its manifest lay: relative paths in it begin there
      logs/             <pod>-<attempt>.log: all that a replica printed
      termination/      <pod>-<attempt>: the agent's last word
      checkpoints/ model/ evaluation.jsonl DONE     the program's own (disttrain_agent.contract)
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from disttrain.local.errors import EXIT_FAILED, LocalError, reason

DEFAULT_RUN_DIR: Final = Path("disttrain-runs")
_JOB_FILE: Final = "job.json"
_ORIGIN_FILE: Final = "origin"
_LOCK_FILE: Final = "lock"


@dataclass(frozen=True)
class JobDir:
    """The paths of one job; `path` is absolute."""

    path: Path

    @property
    def shown(self) -> str:
        """The path as a person would type it here: relative where it lies below the current directory."""
        return shown(self.path)

    def log(self, pod: str, attempt: int) -> Path:
        """Where a pod's output goes."""
        return self.path / "logs" / f"{pod}-{attempt}.log"

    def termination(self, pod: str, attempt: int) -> Path:
        """Where a pod's agent leaves its last word."""
        return self.path / "termination" / f"{pod}-{attempt}"

    def make(self, origin: Path) -> None:
        """Make what is missing and note where the manifest lies. Raises LocalError where that is not allowed."""
        try:
            for path in (self.path, self.path / "logs", self.path / "termination"):
                path.mkdir(parents=True, exist_ok=True)
            (self.path / _ORIGIN_FILE).write_text(f"{origin}\n", encoding="utf-8")
        except OSError as error:
            raise LocalError(
                f"cannot write to {self.shown}: {reason(error)}; name another place with --run-dir"
            ) from error

    def write_job(self, manifest: Mapping[str, Any]) -> None:
        """Store the job with its status; a reader sees the old or the new file, never half of one."""
        target = self.path / _JOB_FILE
        scratch = target.with_suffix(".tmp")
        try:
            scratch.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            scratch.replace(target)
        except OSError as error:
            raise LocalError(f"cannot write {shown(target)}: {reason(error)}", EXIT_FAILED) from error

    def read_job(self) -> bytes:
        """The stored manifest with its status. Raises LocalError where this is no job's directory."""
        try:
            return (self.path / _JOB_FILE).read_bytes()
        except OSError as error:
            raise LocalError(
                f"--resume {self.shown}: cannot read {_JOB_FILE} there ({reason(error)}); give the directory of an "
                f"earlier run, such as {DEFAULT_RUN_DIR}/digits-1a2b3c4d"
            ) from error

    def origin(self) -> Path:
        """The directory in which the job's manifest lay; the current one where that is not known any more."""
        try:
            origin = Path((self.path / _ORIGIN_FILE).read_text(encoding="utf-8").rstrip("\n"))
        except (OSError, UnicodeDecodeError):
            return Path.cwd()
        return origin if origin.is_dir() else Path.cwd()


class Claim:
    """Exclusive use of a job's directory while open: two runs in one would overwrite each other's checkpoints."""

    def __init__(self, directory: JobDir) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        path = self._directory.path / _LOCK_FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._close()
            raise LocalError(f"{self._directory.shown} is in use by another `disttrain run`") from error
        except OSError as error:
            self._close()
            raise LocalError(f"cannot write {shown(path)}: {reason(error)}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def of(run_dir: Path, job: str, uid: str) -> JobDir:
    """The directory of a job that begins; `make` makes it."""
    return JobDir(run_dir.absolute() / f"{job}-{uid[:8]}")


def shown(path: Path) -> str:
    """A path for people: relative to the current directory where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
