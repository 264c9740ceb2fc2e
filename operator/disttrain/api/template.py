"""What must hold of a pod template, which the schema leaves open (core/v1 PodTemplateSpec)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from disttrain import names
from disttrain.api import wording
from disttrain.api.containers import check_containers, named_items
from disttrain.api.errors import FieldError

MAX_TEMPLATE_BYTES: Final = 1_048_576  # a pod must fit into etcd's 1.5 MiB with what DistTrain and Kubernetes add
MAX_TEMPLATE_DEPTH: Final = 64
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)
_OF_POD: Final = {  # fields of a pod spec that the operator sets
    "hostname": "is the pod's name in the cluster's DNS and set by DistTrain; leave it out",
    "subdomain": "is the job's Service and set by DistTrain; leave it out",
}
_METADATA: Final = ("labels", "annotations")


def check(template: Mapping[str, Any], path: str, mount_path: str | None = None) -> Iterator[FieldError]:
    """Every fault of a template. `mount_path`: where the job's storage goes in the trainer container, if it has any."""
    too_much = _measure(template)
    if too_much:
        yield FieldError(path, too_much)
        return
    for field in template:
        if field not in ("metadata", "spec"):
            yield FieldError(wording.child(path, str(field)), wording.unknown_field(str(field), ("metadata", "spec")))
    yield from _check_metadata(template.get("metadata"), f"{path}.metadata")
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        yield FieldError(f"{path}.spec", "is required" if spec is None else wording.wrong_type("an object", spec))
        return
    yield from _check_pod(spec, f"{path}.spec")
    mounts = {names.AGENT_MOUNT_PATH: "where DistTrain's agent is"}
    if mount_path:
        mounts[mount_path.rstrip("/")] = (
            "where spec.storage is mounted; leave it out or choose another spec.storage.mountPath"
        )
    yield from check_containers(spec, f"{path}.spec", mounts)


def _measure(template: Any) -> str | None:
    """Why the template is too large to be a pod, or None. Counts without recursion: depth is one of the faults."""
    total, stack = 0, [(template, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > MAX_TEMPLATE_DEPTH:
            return f"is nested deeper than {MAX_TEMPLATE_DEPTH} levels"
        if isinstance(value, Mapping):
            total += sum(len(str(key)) + 4 for key in value)  # quotes, colon, comma
            stack.extend((part, depth + 1) for part in value.values())
        elif isinstance(value, list | tuple):
            total += len(value)
            stack.extend((part, depth + 1) for part in value)
        else:
            total += len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 8
        if total > MAX_TEMPLATE_BYTES:
            return f"is larger than {MAX_TEMPLATE_BYTES:,} bytes; Kubernetes could not store its pods"
    return None


def check_labels(labels: Any, path: str) -> Iterator[FieldError]:
    """Labels as Kubernetes has them: short words for keys and values."""
    yield from _check_strings(labels, path)
    if not isinstance(labels, Mapping):
        return
    for key, value in labels.items():
        if isinstance(key, str) and not _LABEL_KEY.fullmatch(key):
            yield FieldError(wording.key(path, key), "is not a label key: [domain/]name, name at most 63 characters")
        if isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
            sentence = 'must be at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends'
            yield FieldError(wording.key(path, key), f"{sentence}, not {wording.shown(value)}")


def check_annotations(annotations: Any, path: str) -> Iterator[FieldError]:
    """Annotations: any text under keys of the form of labels' keys."""
    yield from _check_strings(annotations, path)


def _check_strings(entries: Any, path: str) -> Iterator[FieldError]:
    if entries is None:
        return
    if not isinstance(entries, Mapping):
        yield FieldError(path, wording.wrong_type("an object", entries))
        return
    for key, value in entries.items():
        if not isinstance(value, str):
            yield FieldError(wording.key(path, key), wording.wrong_type("a string", value))


def _check_metadata(metadata: Any, path: str) -> Iterator[FieldError]:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield FieldError(path, wording.wrong_type("an object", metadata))
        return
    for field, value in metadata.items():
        # `kubectl create --dry-run` writes creationTimestamp: null into every template.
        if field not in _METADATA and not (field == "creationTimestamp" and value is None):
            yield FieldError(wording.child(path, str(field)), "a pod template has only labels and annotations")
    yield from check_labels(metadata.get("labels"), f"{path}.labels")
    yield from check_annotations(metadata.get("annotations"), f"{path}.annotations")
    for part in _METADATA:
        entries = metadata.get(part)
        for key in entries if isinstance(entries, Mapping) else ():
            if str(key).startswith(f"{names.GROUP}/"):
                yield FieldError(wording.key(f"{path}.{part}", key), f"{names.GROUP}/ is DistTrain's own; leave it out")


def _check_pod(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    policy = spec.get("restartPolicy")
    if policy not in (None, "Never"):
        reason = "a container that the kubelet restarts would be counted twice"
        yield FieldError(f"{path}.restartPolicy", f"must be left out or Never, not {wording.shown(policy)}: {reason}")
    for field, reason in _OF_POD.items():
        if spec.get(field):
            yield FieldError(f"{path}.{field}", reason)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int) or grace < 0):
        sentence = f"must be seconds, an integer of at least 0, not {wording.shown(grace)}"
        yield FieldError(f"{path}.terminationGracePeriodSeconds", sentence)
    taken = {names.AGENT_VOLUME: "DistTrain's own volume", names.STORAGE_VOLUME: "DistTrain's own volume"}
    for item in named_items(spec.get("volumes"), f"{path}.volumes"):
        if isinstance(item, FieldError):
            yield item
            continue
        where, volume = item
        if volume["name"] in taken:
            yield FieldError(f"{where}.name", f"{volume['name']} is the name of {taken[volume['name']]} already")
        taken.setdefault(volume["name"], where)
