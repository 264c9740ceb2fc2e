"""Start the real `disttrain`, watch it from outside, and know every process that came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

DISTTRAIN = Path(sys.executable).parent / "disttrain"
PROGRAM = Path(__file__).parent / "program.py"
DEADLINE = 60.0  # seconds; a machine under load is slow, and what never comes must still fail the test

T = TypeVar("T")


def manifest(
    *flags: str,
    name: str = "tiny",
    strategy: str = "MultiWorkerMirrored",
    roles: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A job of two workers that run `program.py` with these flags."""
    command = ["python", str(PROGRAM), *flags]
    return {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "metadata": {"name": name},
        "spec": {
            "strategy": strategy,
            "roles": {"worker": {"replicas": 2}} if roles is None else roles,
            "template": {"spec": {"containers": [{"name": "trainer", "command": command}]}},
            **spec,
        },
    }


def dump(*manifests: dict[str, Any]) -> str:
    return yaml.safe_dump_all(manifests)


def eventually(probe: Callable[[], T], what: str, seconds: float = DEADLINE) -> T:
    """The first true answer of `probe`; fails the test when there is none in time."""
    end = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {seconds:g} s")
        time.sleep(0.02)
    return answer


@dataclass
class Shell:
    """A directory to run `disttrain` in. Everything it starts inherits a mark, by which `processes` finds it again."""

    directory: Path
    env: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: f"mark-{uuid.uuid4()}")

    def write(self, *manifests: dict[str, Any], file: str = "job.yaml") -> str:
        (self.directory / file).write_text(dump(*manifests))
        return file

    def environment(self) -> dict[str, str]:
        return {**os.environ, "NO_COLOR": "1", "TEST_MARK": self.mark, **self.env}

    def disttrain(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        done = subprocess.run(
            [DISTTRAIN, *arguments],
            cwd=self.directory,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            timeout=10 * DEADLINE,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it, with its output piped. The caller waits for it, see `finish`."""
        return subprocess.Popen(
            [DISTTRAIN, *arguments],
            cwd=self.directory,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def job_dir(self) -> Path:
        """The directory of the one job that ran here."""
        [found] = (self.directory / "disttrain-runs").iterdir()
        return found

    def status(self) -> dict[str, Any]:
        """The status of the one job here as last written; empty while there is none."""
        for path in (self.directory / "disttrain-runs").glob("*/job.json"):
            status: dict[str, Any] = json.loads(path.read_text())["status"]
            return status
        return {}

    def wait_for_step(self, step: int, seconds: float = DEADLINE) -> None:
        eventually(lambda: self.status().get("progress", {}).get("step", 0) >= step, f"step {step}", seconds)

    def wait_for_checkpoint(self, seconds: float = DEADLINE) -> None:
        """Until the status tells of a saved checkpoint, so that a killed job has something to resume from."""
        eventually(lambda: self.status().get("checkpoint", {}).get("step", 0) > 0, "a checkpoint", seconds)

    def processes(self) -> dict[int, str]:
        """What runs of what was started here: command lines by pid."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if line:  # a zombie has none
                        found[int(entry.name)] = line
            except OSError:
                continue
        return found

    def training_process(self, role: str, index: int, attempt: int = 1, program: str = PROGRAM.name) -> int:
        """The pid of one replica's program, not of its agent; waits for it."""
        wanted = {f"DISTTRAIN_ROLE={role}", f"DISTTRAIN_INDEX={index}", f"DISTTRAIN_ATTEMPT={attempt}"}

        def find() -> int | None:
            for pid, line in self.processes().items():
                if program in line and "disttrain_agent" not in line and "PR_SET" not in line and _has(pid, wanted):
                    return pid
            return None

        return eventually(find, f"training process of {role}-{index}") or 0

    def assert_nothing_runs(self, seconds: float = 10) -> None:
        eventually(lambda: not self.processes(), f"end of {self.processes()}", seconds)

    def kill_rest(self) -> None:
        """After a test that failed."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _has(pid: int, variables: set[str]) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return variables <= set(environ)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process from `Shell.start`."""
    out, err = process.communicate(timeout=10 * DEADLINE)
    return process.returncode, out, err


def texts(output: str) -> list[str]:
    """Lines without their time of day."""
    return [line[9:] if line[2:3] == ":" and line[5:6] == ":" else line for line in output.splitlines()]


def containing(lines: Sequence[str], *parts: str) -> list[str]:
    return [line for line in lines if all(part in line for part in parts)]
