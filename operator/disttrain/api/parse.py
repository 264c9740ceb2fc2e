"""From manifests to jobs: files (`load_documents`) and objects (`parse_job`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from disttrain import names
from disttrain.api import wording
from disttrain.api.containers import DNS_LABEL, DNS_LABEL_SENTENCE
from disttrain.api.defaults import with_defaults
from disttrain.api.documents import load_documents
from disttrain.api.errors import FieldError
from disttrain.api.job import Job
from disttrain.api.status import JobStatus
from disttrain.api.template import check_annotations, check_labels
from disttrain.api.validate import validate

__all__ = ["load_documents", "parse_job"]

_NAME: Final = re.compile(names.NAME_PATTERN)
_TOP_LEVEL: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = (  # meta/v1 ObjectMeta
    "name",
    "namespace",
    "labels",
    "annotations",
    "generateName",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "selfLink",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_job(manifest: Mapping[str, Any]) -> Job:
    """The job that an object describes, defaults applied. Never raises: what is wrong stands in `Job.errors`.

    A manifest from a file has no uid, generation and creation time yet: "", 1 and 1970.
    """
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    spec, spec_errors = validate(manifest.get("spec"))
    errors = (*_check_object(manifest), *spec_errors)
    generation = metadata.get("generation")
    return Job(
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")) or "default",
        uid=_text(metadata.get("uid")),
        generation=generation if isinstance(generation, int) else 1,
        created_at=_time(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        spec=None if errors or spec is None else with_defaults(spec),
        errors=errors,
        status=JobStatus.from_manifest(manifest.get("status")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _time(value: Any) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return _EPOCH
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _check_object(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    for field, expected in (("apiVersion", names.API_VERSION), ("kind", names.KIND)):
        value = manifest.get(field)
        if value != expected:
            wrong = f"must be {expected}, not {wording.shown(value)}"
            yield FieldError(field, f"is required: {expected}" if value is None else wrong)
    for field in manifest:
        if field not in _TOP_LEVEL:
            yield FieldError(str(field), wording.unknown_field(str(field), _TOP_LEVEL))
    metadata = manifest.get("metadata")
    if isinstance(metadata, Mapping):
        yield from _check_metadata(metadata)
    else:
        yield FieldError("metadata", "is required" if metadata is None else wording.wrong_type("an object", metadata))


def _check_metadata(metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    for field in metadata:
        if field not in _METADATA:
            yield FieldError(f"metadata.{field}", wording.unknown_field(str(field), _METADATA))
    yield from _check_name(metadata.get("name"))
    namespace = metadata.get("namespace")
    if namespace is not None and not (isinstance(namespace, str) and DNS_LABEL.fullmatch(namespace)):
        yield FieldError("metadata.namespace", f"{DNS_LABEL_SENTENCE}, not {wording.shown(namespace)}")
    yield from check_labels(metadata.get("labels"), "metadata.labels")
    yield from check_annotations(metadata.get("annotations"), "metadata.annotations")


def _check_name(name: Any) -> Iterator[FieldError]:
    """The job's name is the beginning of every pod's name, which is a DNS label: hence shorter than Kubernetes asks."""
    path = "metadata.name"
    if name is None:
        yield FieldError(path, "is required")
    elif not isinstance(name, str):
        yield FieldError(path, wording.wrong_type("a string", name))
    elif len(name) > names.MAX_NAME_LENGTH:
        yield FieldError(path, f"must be at most {names.MAX_NAME_LENGTH} characters, but has {len(name)}")
    elif not _NAME.fullmatch(name):
        form = (
            'must begin with a lower-case letter, go on with lower-case letters, digits and "-", and not end with "-"'
        )
        yield FieldError(path, f"{form}; not {wording.shown(name)}")
