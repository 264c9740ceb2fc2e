"""Index ranges as batch/v1 Job's `completedIndexes` writes them: `0-2,5`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def parse(text: str | None, below: int) -> frozenset[int]:
    """The indexes in a text, those of `below` and more left out. Parts that are not ranges are dropped."""
    indexes: set[int] = set()
    for part in (text or "").split(","):
        match = _RANGE.fullmatch(part.strip())
        if match:
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            indexes.update(range(first, min(last + 1, below)))
    return frozenset(indexes)


def render(indexes: Iterable[int]) -> str | None:
    """The shortest text for a set of indexes; None for none."""
    parts: list[str] = []
    run: list[int] = []
    for index in (*sorted(indexes), None):
        if run and (index is None or index != run[-1] + 1):
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts) or None
