"""Where built programs and running clusters live, and the file locks that guard them."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.errors import ClusterError

Say = Callable[[str], None]
"""Takes one line of progress for a person."""

_LOCK_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0  # a wait shorter than this is not worth a line


def root() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/disttrain/cluster`, made if absent; only its owner may look in (it holds keys)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(base).expanduser() / "disttrain" / "cluster"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"cannot make the cache directory {path}: {error.strerror}; set XDG_CACHE_HOME") from error
    return path


@contextmanager
def exclusive(path: Path, what: str, say: Say) -> Iterator[None]:
    """Holds the lock file `path` exclusively; when somebody else does, says so once and waits.

    The kernel drops the lock with its holder, however that dies.
    """
    with path.open("a+b") as file:
        start, told = time.monotonic(), False
        while not _try_lock(file.fileno(), fcntl.LOCK_EX):
            if not told and time.monotonic() - start > _PATIENCE_SECONDS:
                say(f"{what} is being done by another process ({_holder(path)}); waiting for it")
                told = True
            time.sleep(_LOCK_POLL_SECONDS)
        file.truncate(0)
        file.write(b"pid %d" % os.getpid())
        file.flush()
        yield


def _holder(path: Path) -> str:
    """What `exclusive` wrote, or a word for it where the holder has not written yet."""
    text = path.read_text(errors="replace")
    return text if re.fullmatch(r"pid \d+", text) else "pid unknown"


def _try_lock(fd: int, mode: int) -> bool:
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


class UserCount:
    """Who uses a shared cluster, counted by the kernel: each user holds a shared lock on one file.

    A user that dies, even by SIGKILL, stops counting. Not inherited by child processes (close-on-exec).
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")

    def join(self) -> None:
        fcntl.flock(self._file.fileno(), fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Stops using it. True if nobody else is left."""
        fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)
        last = _try_lock(self._file.fileno(), fcntl.LOCK_EX)
        self._file.close()
        return last

    def unused(self) -> bool:
        """Whether nobody uses it now."""
        return _try_lock(self._file.fileno(), fcntl.LOCK_EX)

    def wait_until_unused(self) -> None:
        """Blocks until the last user is gone."""
        fcntl.flock(self._file.fileno(), fcntl.LOCK_EX)

    def close(self) -> None:
        self._file.close()


def environment(**changes: str) -> dict[str, str]:
    """Our environment with some variables set, for a child process."""
    return {**os.environ, **changes}
