"""Defaults that depend on other fields. Plain ones stand in the models; the schema has one only, `replicas: 1`.

A default of the schema is stored in every job and could never change again; one of these can, for new jobs and old.
"""

from __future__ import annotations

from disttrain import names
from disttrain.api.roles import SingleRole, WorkerRole
from disttrain.api.spec import JobSpec


def with_defaults(spec: JobSpec) -> JobSpec:
    """The spec with the roles its strategy implies: Mirrored's one worker, ParameterServer's chief."""
    roles = spec.roles
    if spec.strategy == names.MIRRORED and roles.worker is None:
        roles = roles.model_copy(update={"worker": WorkerRole(replicas=1)})
    if spec.strategy == names.PARAMETER_SERVER and roles.chief is None:
        roles = roles.model_copy(update={"chief": SingleRole(replicas=1)})
    return spec.model_copy(update={"roles": roles})
