"""The control groups (version 1) in which the nodes live: in each hierarchy one below the group that we are in."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

ROOT = Path("/sys/fs/cgroup")
_NEEDED = {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids"}
_REMOVE_SECONDS = 10.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy: its directory's name, its mount options, and the path of our group in it."""

    directory: str
    options: str
    own: str


def hierarchies() -> list[Hierarchy]:
    """Those of version 1 of this process, from /proc/self/cgroup. Raises ClusterError if a needed one is missing."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if not controllers:  # version 2
            continue
        name = controllers.removeprefix("name=")
        options = f"none,{controllers}" if name != controllers else controllers
        if (ROOT / name).is_dir():
            found.append(Hierarchy(name, options, own))
    missing = _NEEDED - {controller for each in found for controller in each.options.split(",")}
    if missing:
        raise ClusterError(
            f"the netns cluster needs version 1 of the control groups; {', '.join(sorted(missing))} not found under "
            f"{ROOT}. Boot with systemd.unified_cgroup_hierarchy=0, or test on kind"
        )
    return found


def directories(name: str) -> list[Path]:
    """Those of a group of that name, one per hierarchy; a process joins by writing to `cgroup.procs` in each."""
    return [ROOT / each.directory / each.own.lstrip("/") / name for each in hierarchies()]


def create(name: str) -> None:
    """Makes the group in every hierarchy."""
    for each, directory in zip(hierarchies(), directories(name), strict=True):
        directory.mkdir(exist_ok=True)
        if "cpuset" in each.options.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group: nothing could run in it
                (directory / file).write_text((directory.parent / file).read_text())
            (directory / "cgroup.clone_children").write_text("1")


def remove(name: str) -> None:
    """Removes every group of that name, and those below. Raises ClusterError if a process stays in one."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while left := _find(name):
        for top in left:
            _remove_tree(top)
        if time.monotonic() > deadline:
            raise ClusterError(f"the control group {left[0]} cannot be removed: a process is still in it")
        time.sleep(_POLL_SECONDS)


def _find(name: str) -> list[Path]:
    """Wherever an earlier run may have been started from."""
    found = []
    for directory, children, _ in os.walk(ROOT):
        if name in children:
            found.append(Path(directory, name))
            children.remove(name)
    return found


def _remove_tree(top: Path) -> None:
    for directory, _, _ in os.walk(top, topdown=False):
        try:
            Path(directory).rmdir()
        except OSError:  # a process is still ending: the caller tries again
            return
