"""How faults are worded: paths as Kubernetes writes them, values as the manifest has them, the nearest known name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_SHOWN: Final = 60  # characters of a wrong value that are repeated in its fault


def child(path: str, name: str) -> str:
    """The path of a field: `spec` and `roles` make `spec.roles`."""
    return f"{path}.{name}" if path else name


def key(path: str, name: object) -> str:
    """The path of an entry of a map: `limits[nvidia.com/gpu]`."""
    return f"{path}[{cut(str(name))}]"


def item(path: str, index: int) -> str:
    """The path of an item of a list: `containers[0]`."""
    return f"{path}[{index}]"


def cut(text: str) -> str:
    """At most `_SHOWN` characters of a text."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def shown(value: Any) -> str:
    """A wrong value, named by its kind where it is long: `"no"`, `-1`, `an object`."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return json.dumps(cut(value), ensure_ascii=False)
    if value is None or isinstance(value, bool | int | float):
        return cut(json.dumps(value))
    return cut(repr(value))


def one_of(values: Iterable[str]) -> str:
    """Alternatives in a sentence: `A, B or C`."""
    *rest, last = values
    return f"{', '.join(rest)} or {last}" if rest else last


def unknown_field(name: str, known: Iterable[str]) -> str:
    """The sentence about a field that does not exist, with the one that was probably meant."""
    names = list(known)
    lowered = {candidate.lower().replace("_", ""): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower().replace("_", ""), lowered, n=1, cutoff=0.7)
    if near:
        return f"unknown field; did you mean {lowered[near[0]]}?"
    return f"unknown field; the fields here are {', '.join(names)}" if len(names) <= 8 else "unknown field"


def wrong_type(expected: str, value: Any) -> str:
    """The sentence about a value of the wrong JSON type."""
    hint = ""
    if value is None:
        return f"must be {expected}, but has no value"
    if expected == "a string" and isinstance(value, bool | int | float):
        hint = " (put it in quotes)"
    return f"must be {expected}, not {shown(value)}{hint}"
