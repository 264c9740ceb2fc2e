"""What must hold of the containers in a pod template, as far as DistTrain builds on it.

The API server checks the rest when the pods are made; what would only fail there, in a loop, is caught here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from disttrain import names
from disttrain.api import wording
from disttrain.api.errors import FieldError
from disttrain.api.quantity import check_quantity, parse_quantity
from disttrain_agent import contract

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_LABEL_SENTENCE: Final = 'must be at most 63 lower-case letters, digits and "-", with none of these at its ends'
_RESERVED_ENV: Final = ("DISTTRAIN_", contract.ENV_TF_CONFIG)
_ENV_FIELDS: Final = ("name", "value", "valueFrom")


def named_items(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]] | FieldError]:
    """The items of an optional list of objects with a name each, or what is wrong with them."""
    if value is None:
        return
    if not isinstance(value, list | tuple):
        yield FieldError(path, wording.wrong_type("a list", value))
        return
    for index, entry in enumerate(value):
        place = wording.item(path, index)
        if not isinstance(entry, Mapping):
            yield FieldError(place, wording.wrong_type("an object", entry))
        elif not isinstance(entry.get("name"), str) or not entry["name"]:
            yield FieldError(f"{place}.name", "is required" if "name" not in entry else "must be a string, not empty")
        else:
            yield place, entry


def check_containers(spec: Mapping[str, Any], path: str, mounts: Mapping[str, str]) -> Iterator[FieldError]:
    """Containers and init containers of a pod spec. `mounts`: paths of the trainer that are DistTrain's -> why."""
    containers = spec.get("containers")
    place = f"{path}.containers"
    if not isinstance(containers, list | tuple) or not containers:
        wrong = containers is not None and not isinstance(containers, list | tuple)
        yield FieldError(
            place, wording.wrong_type("a list", containers) if wrong else "must have at least one container"
        )
        return
    taken: dict[str, str] = {names.AGENT_INIT_CONTAINER: "DistTrain's own init container"}
    trainer = _trainer(containers)
    if trainer is None:
        yield FieldError(place, f"{len(containers)} containers and none is named {names.TRAINER_CONTAINER}")
    for entries, inner in ((containers, place), (spec.get("initContainers"), f"{path}.initContainers")):
        for item in named_items(entries, inner):
            if isinstance(item, FieldError):
                yield item
                continue
            where, container = item
            yield from _check_name(container["name"], f"{where}.name", taken)
            yield from _check_container(container, where)
            if container is trainer:
                yield from _check_trainer(container, where, mounts)
            elif not container.get("image"):
                yield FieldError(f"{where}.image", "is required: only the trainer container has a default image")


def _trainer(containers: list[Any] | tuple[Any, ...]) -> Any:
    named = (
        entry for entry in containers if isinstance(entry, Mapping) and entry.get("name") == names.TRAINER_CONTAINER
    )
    return next(named, containers[0] if len(containers) == 1 else None)


def _check_name(name: str, path: str, taken: dict[str, str]) -> Iterator[FieldError]:
    if not DNS_LABEL.fullmatch(name):
        yield FieldError(path, f"{DNS_LABEL_SENTENCE}, not {wording.shown(name)}")
    elif name in taken:
        yield FieldError(path, f"{name} is the name of {taken[name]} already")
    taken.setdefault(name, path.removesuffix(".name"))


def _check_container(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    yield from _check_env(container.get("env"), f"{path}.env")
    for field in ("command", "args"):
        yield from _check_strings(container.get(field), f"{path}.{field}")
    if (image := container.get("image")) is not None and not isinstance(image, str):
        yield FieldError(f"{path}.image", wording.wrong_type("a string", image))
    if (resources := container.get("resources")) is not None:
        yield from check_resources(resources, f"{path}.resources")


def _check_trainer(container: Mapping[str, Any], path: str, mounts: Mapping[str, str]) -> Iterator[FieldError]:
    """The trainer container is where DistTrain adds its own: what the user must not set there."""
    for index, entry in enumerate(_objects(container.get("env"))):
        name = entry.get("name")
        if isinstance(name, str) and name.startswith(_RESERVED_ENV):
            yield FieldError(f"{path}.env[{index}].name", f"{name} is set by DistTrain for each pod; leave it out")
    for index, entry in enumerate(_objects(container.get("ports"))):
        if entry.get("name") in (names.PORT_NAME_TF, names.PORT_NAME_AGENT):
            yield FieldError(
                f"{path}.ports[{index}].name", f"{entry['name']} is the name of a port that DistTrain adds"
            )
    for index, entry in enumerate(_objects(container.get("volumeMounts"))):
        mount = entry.get("mountPath")
        if isinstance(mount, str) and (mount.rstrip("/") or "/") in mounts:
            yield FieldError(f"{path}.volumeMounts[{index}].mountPath", f"{mount} is {mounts[mount.rstrip('/')]}")


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, blanks in place of others so that indexes stay right; empty if it is no list."""
    return [entry if isinstance(entry, Mapping) else {} for entry in value] if isinstance(value, list | tuple) else []


def _check_env(env: Any, path: str) -> Iterator[FieldError]:
    for item in named_items(env, path):
        if isinstance(item, FieldError):
            yield item
            continue
        where, entry = item
        for field in entry:
            if field not in _ENV_FIELDS:
                yield FieldError(f"{where}.{field}", wording.unknown_field(str(field), _ENV_FIELDS))
        if "=" in entry["name"]:
            yield FieldError(f"{where}.name", f'must not contain "=": {wording.shown(entry["name"])}')
        value, source = entry.get("value"), entry.get("valueFrom")
        if value is not None and not isinstance(value, str):
            yield FieldError(f"{where}.value", wording.wrong_type("a string", value))
        elif value and source is not None:
            yield FieldError(f"{where}.valueFrom", "give either value or valueFrom")
        elif source is not None and not isinstance(source, Mapping):
            yield FieldError(f"{where}.valueFrom", wording.wrong_type("an object", source))
        elif value:
            yield from _check_length(f"{entry['name']}={value}", f"{where}.value")


def _check_strings(value: Any, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    if not isinstance(value, list | tuple):
        yield FieldError(path, wording.wrong_type("a list", value))
        return
    for index, text in enumerate(value):
        if isinstance(text, str):
            yield from _check_length(text, wording.item(path, index))
        else:
            yield FieldError(wording.item(path, index), wording.wrong_type("a string", text))


def _check_length(text: str, path: str) -> Iterator[FieldError]:
    """Linux: MAX_ARG_STRLEN, with the final NUL; exec would fail with "argument list too long"."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size >= contract.MAX_ENV_STRING_BYTES:
        limit = contract.MAX_ENV_STRING_BYTES - 1
        yield FieldError(
            path, f"is {size:,} bytes, more than the {limit:,} that Linux can pass; use a file or ConfigMap volume"
        )


def check_resources(resources: Any, path: str) -> Iterator[FieldError]:
    """The amounts of a core/v1 ResourceRequirements."""
    if not isinstance(resources, Mapping):
        yield FieldError(path, wording.wrong_type("an object", resources))
        return
    for kind in ("requests", "limits"):
        part = resources.get(kind)
        if part is None:
            continue
        if not isinstance(part, Mapping):
            yield FieldError(f"{path}.{kind}", wording.wrong_type("an object", part))
            continue
        for name, value in part.items():
            # An unquoted 0.5 is a number in YAML; core/v1 takes it, so it passes here too.
            problem = check_quantity(str(value) if isinstance(value, float) else value)
            if problem:
                yield FieldError(wording.key(f"{path}.{kind}", name), problem)
    yield from requests_within_limits(resources, path)


def requests_within_limits(resources: Any, path: str) -> Iterator[FieldError]:
    """Requests larger than their limit; amounts that are none are passed over."""
    if not isinstance(resources, Mapping):
        return
    requests, limits = resources.get("requests"), resources.get("limits")
    if not isinstance(requests, Mapping) or not isinstance(limits, Mapping):
        return
    for name, request in requests.items():
        asked, allowed = parse_quantity(str(request)), parse_quantity(str(limits.get(name)))
        if asked is not None and allowed is not None and asked > allowed:
            message = f"must be at most the limit {limits[name]}, not {request}"
            yield FieldError(wording.key(f"{path}.requests", name), message)
