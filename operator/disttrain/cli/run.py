"""`disttrain run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from disttrain.cli.options import Format, Verbosity

if TYPE_CHECKING:
    from disttrain.local.work import Request, Work

HELP: Final = """Train jobs on this machine: the same roles as in a cluster, as processes that talk over loopback.

Each job gets a directory of its own, RUN-DIR/JOB-UID, with its checkpoints, exported model, logs and status. Running
the same manifest again is a new job; --resume goes on with an old one. Several jobs (documents or files) run one after
the other, also after one has failed.

Ctrl-C stops the replicas cleanly: they save, and the last line says how to go on. A second Ctrl-C kills them.
"""
EPILOG: Final = """Exit codes: 0 every job succeeded. 1 a job failed, or a run broke off (a full disk). 2 bad manifest
or usage, or this machine cannot run it; nothing was started. 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
"""
Streamed = Callable[[str, int], bool]


def run(
    manifests: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB.yaml", help="Files with one or more jobs; `-` is stdin.", show_default=False),
    ] = None,
    *,
    run_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where the jobs' directories are made.")] = Path(
        "disttrain-runs"
    ),
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with the job of this directory, with JOB.yaml as its new manifest or as it was.",
        ),
    ] = None,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE[/INDEX]",
            help="Also show what these replicas print, such as worker/0, worker or all; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option("--output", "-o", help="Print the finished jobs with their status on stdout, all else on stderr."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only errors, and logs asked for.")] = False,
    _verbose: Verbosity = False,
) -> None:
    """Check everything, then run."""
    streamed = _streamed(logs or [])
    works = _works(manifests or [], run_dir, resume)

    from disttrain.cli.output import write
    from disttrain.local.display import Output
    from disttrain.local.session import Options, run

    errors = Output(file=sys.stderr)
    shown = errors if output else Output(file=sys.stdout)
    result = run(works, Options(output=shown, errors=errors, quiet=quiet, streamed=streamed))
    if output:
        write(result.jobs, output)
    raise typer.Exit(result.exit_code)


def _works(manifests: list[str], run_dir: Path, resume: Path | None) -> list[Work]:
    """The jobs to run; exits with 2 and says why if one cannot be."""
    if not manifests and resume is None:
        raise typer.BadParameter("give a manifest, `-` for stdin, or --resume DIR", param_hint="JOB.yaml")

    requests = _requests(manifests, os.environ)

    from disttrain.local.jobdir import JobDir
    from disttrain.local.work import begin, stored
    from disttrain.local.work import resume as go_on

    now = datetime.now(UTC)
    if resume is None:
        return [begin(request, run_dir, now) for request in requests]
    if len(requests) > 1:
        raise typer.BadParameter(f"goes on with one job, and {len(requests)} are given", param_hint="--resume")
    directory = JobDir(_existing(resume, run_dir).absolute())
    before = stored(directory)
    request = requests[0] if requests else before
    _refuse(_cannot_run(directory.shown, request, os.environ))
    return [go_on(directory, before, request, now)]


def _existing(resume: Path, run_dir: Path) -> Path:
    """The directory itself, or the one of that name among the runs."""
    return resume if resume.is_dir() or resume.is_absolute() else max(resume, run_dir / resume, key=Path.is_dir)


def _requests(manifests: list[str], shell: Mapping[str, str]) -> list[Request]:
    """Every job of the files; all faults of all of them are told before anything runs."""
    from disttrain.cli.manifests import read
    from disttrain.local.work import Request

    found = read(manifests)
    for line in found.skipped:
        typer.echo(line, err=True)
    _refuse(found.faults)
    requests = [Request(document.manifest, document.job, document.origin) for document in found.documents]
    _refuse(
        [
            line
            for document, request in zip(found.documents, requests, strict=True)
            for line in _cannot_run(document.place, request, shell)
        ]
    )
    return requests


def _cannot_run(place: str, request: Request, shell: Mapping[str, str]) -> list[str]:
    from disttrain.local.work import check

    return [f"{place}: {line}" for line in check(request, shell)]


def _refuse(faults: list[str]) -> None:
    for line in faults:
        typer.echo(line, err=True)
    if faults:
        raise typer.Exit(2)


def _streamed(wanted: list[str]) -> Streamed:
    """Which replicas' output is shown. Exits with 2 for a role that does not exist."""
    from disttrain import names

    chosen: set[tuple[str, int | None]] = set()
    for one in wanted:
        role, slash, index = one.partition("/")
        if role not in (*names.ROLES, "all") or (slash and not index.isdecimal()):
            known = ", ".join(names.ROLES)
            raise typer.BadParameter(f"{one!r} is not ROLE or ROLE/INDEX with a role of {known}", param_hint="--logs")
        chosen.add((role, int(index) if slash else None))
    return lambda role, index: not chosen.isdisjoint({("all", None), (role, None), (role, index)})
