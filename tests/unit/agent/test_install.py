"""The agent as one file: complete, the same each time, and runnable by any Python from 3.9 on."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import disttrain_agent
from disttrain_agent import install
from tests.unit.agent.harness import cluster, python, task

PACKAGE = Path(disttrain_agent.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=more, cwd="/")


def test_it_runs_by_itself_with_nothing_else_installed(tmp_path: Path) -> None:
    done = run(str(install.install(str(tmp_path))), "--version", PATH=str(Path(sys.executable).parent))
    assert (done.returncode, done.stdout) == (0, f"disttrain-agent {disttrain_agent.__version__}\n")


def test_it_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(install.install(str(tmp_path / "a.pyz"))) as archive:
        inside = {name for name in archive.namelist() if name != "__main__.py"}
    assert inside == {path.relative_to(PACKAGE.parent).as_posix() for path in SOURCES}


def test_the_installed_one_installs_itself_unchanged(tmp_path: Path) -> None:
    first = install.install(str(tmp_path / "first.pyz"))
    done = run(sys.executable, "-I", str(first), "install", str(tmp_path / "second.pyz"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "second.pyz").read_bytes() == first.read_bytes()


def test_into_a_directory_it_has_its_usual_name(tmp_path: Path) -> None:
    assert install.install(str(tmp_path)) == tmp_path / "agent.pyz"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "disttrain_agent", "install", str(tmp_path / "absent" / "a.pyz"))
    assert done.returncode == 1
    assert done.stderr.startswith("disttrain-agent: cannot install to")
    assert done.stderr.count("\n") == 1


def test_a_failed_install_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(install, "archive", full)
    with pytest.raises(OSError, match="No space"):
        install.install(str(tmp_path / "a.pyz"))
    assert list(tmp_path.iterdir()) == []


def test_it_supervises_and_composes_a_long_tf_config(tmp_path: Path) -> None:
    archive = install.install(str(tmp_path))
    environ = task(cluster("MultiWorkerMirrored", {"worker": 3500}, local=False), "evaluator", ENV_AGENT_PORT="0")
    code = "import os; print(len(os.environ['TF_CONFIG']) > 131072)"
    done = run(sys.executable, "-I", str(archive), "--", *python(code), **environ)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_it_is_python_3_9_and_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in imported}
    assert roots <= sys.stdlib_module_names | {"disttrain_agent"}
