"""Is a spec a job that DistTrain can run? All faults at once, each with its path and once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from disttrain import names
from disttrain.api import structure, template, wording
from disttrain.api.containers import requests_within_limits
from disttrain.api.errors import FieldError
from disttrain.api.rules import RULES
from disttrain.api.spec import JobSpec


def validate(raw: Any) -> tuple[JobSpec | None, tuple[FieldError, ...]]:
    """The spec, without the defaults of `disttrain.api.defaults`, or what is wrong with it; never both.

    Rules between fields are asked only of a spec whose fields are right by themselves.
    """
    if not isinstance(raw, Mapping):
        return None, (FieldError("spec", "is required" if raw is None else wording.wrong_type("an object", raw)),)
    read = structure.read(raw)
    errors = list(read) if isinstance(read, tuple) else list(broken_rules(read))
    errors.extend(_templates(raw))
    if errors or isinstance(read, tuple):
        return None, tuple(errors)
    return read, ()


def broken_rules(spec: JobSpec) -> Iterator[FieldError]:
    """The rules between fields (`disttrain.api.rules`) that do not hold."""
    for path, part in structure.parts(spec, "spec"):
        for rule in RULES:
            if isinstance(part, rule.scope) and not rule.holds(part):
                yield FieldError(wording.child(path, rule.field), rule.message)


def _templates(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """The templates, as they are written: their faults are told together with those of the fields around them."""
    storage = raw.get("storage")
    mount_path = storage.get("mountPath", names.DEFAULT_MOUNT_PATH) if isinstance(storage, Mapping) else None
    mount_path = mount_path if isinstance(mount_path, str) else None
    shared = raw.get("template")
    if isinstance(shared, Mapping):
        yield from template.check(shared, "spec.template", mount_path)
    roles = raw.get("roles")
    for role, spec in roles.items() if isinstance(roles, Mapping) else ():
        if role not in names.ROLES or not isinstance(spec, Mapping):
            continue
        path = f"spec.roles.{role}"
        if isinstance(spec.get("template"), Mapping):
            yield from template.check(spec["template"], f"{path}.template", mount_path)
        yield from requests_within_limits(spec.get("resources"), f"{path}.resources")
