"""Options and arguments that several verbs have."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass
class Shared:
    """What the verbs tell `main`, which handles their errors. The click context's `obj`."""

    verbose: bool = False


class Format(enum.StrEnum):
    """Machine-readable output."""

    JSON = "json"
    YAML = "yaml"


def _remember(context: typer.Context, verbose: bool) -> bool:
    if verbose:
        context.find_object(Shared).verbose = True  # type: ignore[union-attr]  # main passes one
    return verbose


Verbosity = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show the traceback of an internal error.", callback=_remember, is_eager=True),
]

Manifests = Annotated[
    list[str], typer.Argument(metavar="JOB.yaml", help="Files with one or more documents; `-` is stdin.")
]
