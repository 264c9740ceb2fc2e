"""`disttrain` and `kubectl disttrain`: the verbs, and how errors are shown."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

import typer

from disttrain.cli import render, run, validate, version
from disttrain.cli.options import Shared, Verbosity

_HELP: Final = """Train TensorFlow programs from one manifest, a DistTrainJob, on this machine as on a cluster."""

app = typer.Typer(
    help=_HELP,
    rich_markup_mode=None,  # plain help: quick, and right on every terminal
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _common(_verbose: Verbosity = False) -> None:
    """Train TensorFlow programs from one manifest, a DistTrainJob, on this machine as on a cluster."""


app.command("run", help=run.HELP, short_help="Train jobs on this machine.", epilog=run.EPILOG)(run.run)
app.command("validate", help=validate.HELP, short_help="Check manifests, offline.")(validate.validate)
app.command("render", help=render.HELP, short_help="Print the objects the operator makes of a job.")(render.render)
app.command("version", help=version.HELP)(version.version)


def main() -> None:
    """Run a verb and exit. Nobody sees a traceback who did not ask for one with `-v`."""
    # Nothing has to be undone before `disttrain run` starts processes, and then it has handlers of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    shared = Shared()
    try:
        app(prog_name=_program_name(sys.argv[0]), obj=shared)
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`); Python's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  the last resort: one line instead of a traceback
        from disttrain.cli.failures import explain

        message, code = explain(error, shared.verbose)
        sys.stderr.write(message)
        sys.exit(code)


def _program_name(path: str) -> str:
    return "kubectl disttrain" if Path(path).name.startswith("kubectl-") else "disttrain"


if __name__ == "__main__":
    main()
