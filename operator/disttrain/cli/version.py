"""`disttrain version`."""

from __future__ import annotations

import platform
from typing import Final

import typer

from disttrain.cli.options import Verbosity

HELP: Final = "Print the versions of DistTrain, Python and TensorFlow."


def version(_verbose: Verbosity = False) -> None:
    """One line each."""
    from importlib import metadata

    typer.echo(f"disttrain {metadata.version('disttrain')}")
    typer.echo(f"python {platform.python_version()}")
    typer.echo(f"tensorflow {_tensorflow()}")


def _tensorflow() -> str:
    """From the package's metadata: importing it takes seconds."""
    from importlib import metadata

    for package in ("tensorflow", "tensorflow-cpu", "tensorflow-intel"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
