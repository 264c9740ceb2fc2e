"""`disttrain validate`."""

from __future__ import annotations

from typing import Final

import typer

from disttrain.cli.options import Manifests, Verbosity

HELP: Final = """Check manifests without running anything and without a cluster.

Prints `NAME: valid` for each valid job, and `FILE: document N: FIELD: MESSAGE` for each fault. The rules are the ones
the API server and the operator apply.

Exit codes: 0 all are valid, 2 at least one is not.
"""


def validate(manifests: Manifests, _verbose: Verbosity = False) -> None:
    """All documents of all files, also after a fault."""
    from disttrain.cli.manifests import read

    found = read(manifests)
    for document in found.documents:
        if not document.faults:
            typer.echo(f"{document.job.name}: valid")
    for line in (*found.skipped, *found.faults):
        typer.echo(line, err=True)
    if found.faults:
        raise typer.Exit(2)
