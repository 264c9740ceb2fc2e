"""The agent's own log lines: one plain line each on stderr, told from the training's output by their prefix."""

from __future__ import annotations

import os
from typing import Final

PREFIX: Final = "disttrain-agent: "
MAX_CHARACTERS: Final = 2000


def log(message: str) -> None:
    """Write one line. A stderr that is gone loses the line and nothing else: supervision goes on."""
    line = PREFIX + " ".join(message.split())[:MAX_CHARACTERS] + "\n"
    try:
        os.write(2, line.encode("utf-8", "replace"))
    except OSError:
        return
