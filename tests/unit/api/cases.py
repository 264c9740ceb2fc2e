"""Manifests that must be refused, with the sentence for each, and some that must not.

The tables (bad_input/*.yaml, good_input.yaml) are the same for the offline checks and for a real API server.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_HERE: Final = Path(__file__).parent
_GONE: Final = "<gone>"  # in the tables: take the field away
_LONG: Final = re.compile(r"<([0-9]+) x>")  # in the tables: that many letters
_ROLES: Final[dict[str, dict[str, Any]]] = {
    "Mirrored": {},
    "MultiWorkerMirrored": {"worker": {"replicas": 2}},
    "ParameterServer": {"worker": {"replicas": 2}, "ps": {"replicas": 1}},
}
CONTAINER: Final = "spec.template.spec.containers.0"


def manifest(strategy: str = "MultiWorkerMirrored", edits: dict[str, Any] | None = None) -> dict[str, Any]:
    """A small valid job, then changed at dotted paths; numbers are indexes of lists."""
    job: dict[str, Any] = {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "metadata": {"name": "digits", "namespace": "default"},
        "spec": {
            "strategy": strategy,
            "template": {
                "spec": {"containers": [{"name": "trainer", "image": "example/digits:1", "args": ["train.py"]}]}
            },
            "roles": copy.deepcopy(_ROLES[strategy]),
        },
    }
    for path, value in (edits or {}).items():
        _edit(job, path, value)
    return job


def _edit(part: Any, path: str, value: Any) -> None:
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in parents:
        part = part[step] if isinstance(step, int) else part.setdefault(step, {})
    if value == _GONE:
        del part[last]
    elif isinstance(last, int) and last == len(part):
        part.append(value)
    else:
        part[last] = copy.deepcopy(value)


@dataclass(frozen=True)
class Case:
    """A manifest. `error` is the one sentence about it, empty if it is valid. `admission` is what the API server says
    of it; None where it cannot see the fault and the operator says InvalidSpec instead."""

    id: str
    manifest: dict[str, Any]
    error: str = ""
    admission: str | None = None


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_expanded(part) for part in value]
    long = _LONG.fullmatch(value) if isinstance(value, str) else None
    return "x" * int(long[1]) if long else value


def _table(file: str) -> tuple[Case, ...]:
    rows = yaml.safe_load((_HERE / file).read_text())
    return tuple(
        Case(
            row["id"],
            manifest(row.get("strategy", "MultiWorkerMirrored"), _expanded(row["edits"])),
            row.get("error", ""),
            row.get("admission"),
        )
        for row in rows
    )


SCHEMA: Final = _table("bad_input/schema.yaml")
RULES: Final = _table("bad_input/rules.yaml")
LATER: Final = _table("bad_input/later.yaml")
TEMPLATES: Final = _table("bad_input/templates.yaml")
NAMES: Final = _table("bad_input/names.yaml")
BAD: Final = (*SCHEMA, *RULES, *LATER, *TEMPLATES, *NAMES)
GOOD: Final = _table("good_input.yaml")
