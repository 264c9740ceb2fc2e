"""The agent as one executable zip file, for images that do not have it: an init container copies it into a volume."""

from __future__ import annotations

import io
import os
import pkgutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final, List, Tuple

ARCHIVE_NAME: Final = "agent.pyz"
PACKAGE: Final = "disttrain_agent"
SHEBANG: Final = b"#!/usr/bin/env python3\n"
ENTRY: Final = b"from disttrain_agent.__main__ import main\n\nmain()\n"
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # zip's own: the same code is the same bytes


def install(destination: str) -> Path:
    """Write the archive to `destination`, or to `agent.pyz` in it if it is a directory; returns its path.

    Atomic: a reader sees the old file or the new one. Raises OSError.
    """
    path = Path(destination)
    if path.is_dir():
        path = path / ARCHIVE_NAME
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".agent-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(archive())
        temporary.chmod(0o755)  # the pod's user is not ours
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    return path


def archive() -> bytes:
    """The zip file with this package alone in it, runnable by `python3 agent.pyz` and, as a file, by itself."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in [("__main__.py", ENTRY), *_sources()]:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            target.writestr(entry, content)
    return SHEBANG + buffer.getvalue()


def _sources() -> List[Tuple[str, bytes]]:
    names = [f"{PACKAGE}/{name}" for name in _names()]
    sources = []
    for name in sorted(names):
        content = pkgutil.get_data(PACKAGE, name[len(PACKAGE) + 1 :])
        if content is None:
            raise OSError(f"this installation of the agent lacks {name}")
        sources.append((name, content))
    return sources


def _names() -> List[str]:
    """Files of the package, relative to it, whether it lies in a directory or in a zip file."""
    loader = getattr(sys.modules[PACKAGE], "__loader__", None)
    container = getattr(loader, "archive", None)
    if container is not None:
        with zipfile.ZipFile(container) as source:
            inside = [name[len(PACKAGE) + 1 :] for name in source.namelist() if name.startswith(f"{PACKAGE}/")]
        return [name for name in inside if name.endswith(".py")]
    root = Path(__file__).absolute().parent
    return [path.relative_to(root).as_posix() for path in root.rglob("*.py")]
