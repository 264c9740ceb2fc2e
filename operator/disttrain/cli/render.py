"""`disttrain render`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from disttrain import names
from disttrain.cli.options import Format, Manifests, Verbosity

if TYPE_CHECKING:
    from disttrain.core.model import Job, Manifest, Settings

HELP: Final = """Print the objects that the operator makes of a job: Service, NetworkPolicy and pods.

They are exactly what the operator would create for the first attempt, but for what only a cluster gives: the job's uid
(00000000-... here) and the operator's own image settings (--trainer-image, --agent-image).

Exit codes: 0 done, 2 a manifest is not valid.
"""
UID: Final = "00000000-0000-0000-0000-000000000000"


def render(
    manifests: Manifests,
    *,
    output: Annotated[Format, typer.Option("--output", "-o", help="Format.")] = Format.YAML,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="For jobs that name none.")] = "default",
    trainer_image: Annotated[
        str, typer.Option(help="The operator's default trainer image, for templates without an image.")
    ] = names.TRAINER_IMAGE,
    agent_image: Annotated[str, typer.Option(help="The image that the agent is taken from.")] = names.AGENT_IMAGE,
    _verbose: Verbosity = False,
) -> None:
    """All documents of all files, or nothing if one has a fault."""
    from disttrain.cli.manifests import read
    from disttrain.cli.output import write
    from disttrain.core.model import Settings

    found = read(manifests)
    for line in (*found.skipped, *found.faults):
        typer.echo(line, err=True)
    if found.faults:
        raise typer.Exit(2)
    settings = Settings(trainer_image=trainer_image, agent_image=agent_image)
    jobs = [replace(one.job, uid=UID, namespace=one.job.namespace or namespace) for one in found.documents]
    write([made for job in jobs for made in _objects(job, settings)], output)


def _objects(job: Job, settings: Settings) -> tuple[Manifest, ...]:
    """What the first plan makes, as if nothing stood in its way: neither a queue nor another controller."""
    from disttrain import names
    from disttrain.api.status import JobStatus
    from disttrain.core.model import Observed
    from disttrain.core.plan import plan

    if job.spec is None:
        raise ValueError(f"job {job.name} is not valid")
    spec = job.spec.model_copy(update={"suspend": False, "managed_by": names.OPERATOR})
    begun = replace(job, spec=spec, status=JobStatus())
    return plan(begun, Observed(), job.created_at, settings).creates
