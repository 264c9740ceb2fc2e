"""Run the test suites one after the other and say at the end which ran, which did not, and why.

    python -m tests.suites [SUITE...]

A suite is skipped only for want of something this machine cannot have (say, no Linux for the emulator). With CI=true
a skip for want of something that could be installed is a failure. Exit code 1 if any suite failed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "test-results"
PYTHON = sys.executable
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Skip:
    """Why a suite cannot run here. `installable`: somebody could install what is missing, so CI may not skip."""

    reason: str
    installable: bool


def _always() -> Skip | None:
    return None


def _needs_emulator() -> Skip | None:
    if not sys.platform.startswith("linux"):
        return Skip("the emulated control plane is built for Linux", installable=False)
    return None


def _needs_tensorflow() -> Skip | None:
    if importlib.util.find_spec("tensorflow") is None:
        return Skip("TensorFlow is not installed: pip install 'disttrain[trainer]'", installable=True)
    return None


@dataclass(frozen=True)
class Suite:
    """A named part of the tests: either pytest paths or a list of commands, each of which must exit 0."""

    name: str
    about: str
    paths: tuple[str, ...] = ()
    workers: int = 0
    commands: tuple[tuple[str, ...], ...] = ()
    missing: Callable[[], Skip | None] = _always


SUITES = (
    Suite(
        "lint",
        "ruff, mypy --strict, import contracts, generated manifests",
        commands=(
            (str(BIN / "ruff"), "check", "--quiet", "."),
            (str(BIN / "ruff"), "format", "--check", "--quiet", "."),
            (str(BIN / "mypy"),),
            (str(BIN / "lint-imports"),),
            (PYTHON, "-m", "disttrain.api.render", "--check"),
        ),
    ),
    Suite("unit", "the resource, the core, the shells, golden objects", ("tests/unit", "tests/golden"), workers=2),
    Suite("properties", "stateful models of a job's life", ("tests/properties",), workers=2),
    Suite(
        "emulator",
        "the operator on a real etcd, API server, controller manager and scheduler",
        ("tests/emulator", "tests/cluster"),
        workers=2,
        missing=_needs_emulator,
    ),
    Suite("trainer", "real TensorFlow processes under every strategy", ("tests/trainer",), missing=_needs_tensorflow),
    Suite(
        "local", "disttrain run, with and without TensorFlow", ("tests/local",), workers=2, missing=_needs_tensorflow
    ),
)


@dataclass
class Outcome:
    """What came of a suite; counts are of tests (of commands for lint)."""

    suite: Suite
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


def _run_commands(outcome: Outcome, environment: dict[str, str]) -> None:
    for command in outcome.suite.commands:
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        outcome.passed += code == 0
        outcome.failed += code != 0
        if code:
            outcome.note += f"{Path(command[0]).name} exited {code}; "


def _run_pytest(outcome: Outcome, environment: dict[str, str]) -> None:
    suite = outcome.suite
    report = RESULTS / f"{suite.name}.xml"
    command = [PYTHON, "-m", "pytest", "-q", f"--junit-xml={report}", *suite.paths]
    if suite.workers:
        command += ["-n", str(suite.workers), "--dist", "loadfile"]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    cases = ElementTree.parse(report).getroot().iter("testcase") if report.exists() else iter(())
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif case.find("skipped") is not None:
            outcome.skipped += 1
        else:
            outcome.passed += 1
    if code and not outcome.failed:
        outcome.failed += 1
        outcome.note += f"pytest exited {code}; "
    if outcome.skipped and environment.get("CI") == "true":
        outcome.failed += 1
        outcome.note += f"{outcome.skipped} tests skipped, which CI does not allow; "


def _run(suite: Suite, environment: dict[str, str]) -> Outcome:
    outcome = Outcome(suite)
    missing = suite.missing()
    if missing is not None:
        outcome.note = missing.reason
        if missing.installable and environment.get("CI") == "true":
            outcome.failed = 1
        return outcome
    print(f"\n== {suite.name}: {suite.about}", flush=True)
    start = time.monotonic()
    if suite.commands:
        _run_commands(outcome, environment)
    else:
        _run_pytest(outcome, environment)
    outcome.seconds = time.monotonic() - start
    return outcome


def main(names: list[str]) -> int:
    known = {suite.name: suite for suite in SUITES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    outcomes = [_run(known[name], environment) for name in (names or list(known))]
    print(f"\n{'suite':12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}  note")
    for outcome in outcomes:
        ran = outcome.passed + outcome.failed + outcome.skipped
        note = outcome.note if ran else f"not run: {outcome.note}"
        counts = f"{outcome.passed:7d} {outcome.failed:7d} {outcome.skipped:8d}"
        print(f"{outcome.suite.name:12} {counts} {outcome.seconds:8.0f}  {note}")
    passed, failed, skipped = (sum(getattr(o, key) for o in outcomes) for key in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
