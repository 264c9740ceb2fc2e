"""Locks and user counts that outlive nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cluster import cache
from tests.cluster.errors import ClusterError

CHECKOUT = Path(__file__).parents[2]


def other_process(code: str, path: Path) -> subprocess.Popen[str]:
    """A process that runs code with `path` and then waits to be ended; returns when it has said so."""
    text = f"import time\nfrom pathlib import Path\nfrom tests.cluster import cache\npath = Path({str(path)!r})\n{code}"
    process = subprocess.Popen([sys.executable, "-c", text], cwd=CHECKOUT, text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


HOLD_LOCK = "with cache.exclusive(path, 'x', print):\n    print('ready', flush=True)\n    time.sleep(600)"
USE = "users = cache.UserCount(path)\nusers.join()\nprint('ready', flush=True)\ntime.sleep(600)"


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_held_lock_is_waited_for_and_named(tmp_path: Path) -> None:
    holder = other_process(HOLD_LOCK, tmp_path / "lock")
    said = threading.Event()
    lines = []

    def say(line: str) -> None:
        lines.append(line)
        said.set()

    def take() -> None:
        with cache.exclusive(tmp_path / "lock", "building", say):
            pass

    waiter = threading.Thread(target=take)
    waiter.start()
    assert said.wait(30)
    end(holder)  # killed: the kernel frees the lock
    waiter.join(30)
    assert not waiter.is_alive()
    assert lines == [f"building is being done by another process (pid {holder.pid}); waiting for it"]


def test_the_last_user_knows_that_it_is_the_last(tmp_path: Path) -> None:
    first, second = cache.UserCount(tmp_path / "users"), cache.UserCount(tmp_path / "users")
    first.join()
    second.join()
    assert (first.leave(), second.leave()) == (False, True)


def test_a_killed_user_does_not_count(tmp_path: Path) -> None:
    user = other_process(USE, tmp_path / "users")
    watcher = cache.UserCount(tmp_path / "users")
    assert not watcher.unused()
    end(user)
    assert watcher.unused()
    watcher.close()


def test_the_cache_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (cache.root(), cache.root().stat().st_mode & 0o777) == (tmp_path / "disttrain" / "cluster", 0o700)


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ClusterError, match=r"cannot make the cache directory .*; set XDG_CACHE_HOME"):
        cache.root()
