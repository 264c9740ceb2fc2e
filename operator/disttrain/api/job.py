"""A DistTrainJob as a whole: its identity, its spec and what was last written about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from disttrain.api.errors import FieldError
from disttrain.api.spec import JobSpec
from disttrain.api.status import JobStatus


@dataclass(frozen=True, slots=True)
class Job:
    """A DistTrainJob as the API server (or the manifest file) has it.

    `spec` is None exactly when `errors` is not empty: the object was stored but does not describe a job.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    created_at: datetime
    deleting: bool
    spec: JobSpec | None
    errors: tuple[FieldError, ...]
    status: JobStatus
