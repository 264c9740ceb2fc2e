"""The CustomResourceDefinition, generated from the models and rules: the API server and we read one definition."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from disttrain import names
from disttrain.api.openapi import Schema, object_type, schema_of
from disttrain.api.rules import RULES, transitions
from disttrain.api.spec import JobSpec
from disttrain.api.status import JobStatus

MAX_BYTES = 100_000  # client-side `kubectl apply` keeps a copy in an annotation, which may have 262,144

_COLUMNS = (
    ("Strategy", "string", ".spec.strategy"),
    ("Phase", "string", ".status.phase"),
    ("Ready", "string", ".status.ready"),
    ("Progress", "string", ".status.progress.summary"),
    ("Restarts", "integer", ".status.restarts"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def custom_resource_definition() -> dict[str, Any]:
    """The CRD as JSON-compatible data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.PLURAL}.{names.GROUP}",
            "labels": {names.LABEL_APP_NAME: names.APP_NAME},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in _COLUMNS],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.roles.worker.replicas",
                "statusReplicasPath": ".status.roles.worker.active",
                "labelSelectorPath": ".status.roles.worker.selector",
            },
        },
        "schema": {"openAPIV3Schema": _schema()},
    }


def _schema() -> Schema:
    spec = schema_of(JobSpec)
    _add_rules(spec, JobSpec)
    name = {
        "description": "At most 50 characters, so that the names of all pods fit and no later scale-up can break one.",
        "type": "string",
        "maxLength": names.MAX_NAME_LENGTH,
        "pattern": names.NAME_PATTERN,
    }
    return {
        "description": "A distributed TensorFlow training: its pods, their cluster, restarts and progress.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": "disttrain.dev/v1alpha1", "type": "string"},
            "kind": {"description": "DistTrainJob", "type": "string"},
            "metadata": {"type": "object", "properties": {"name": name}},  # its description is the API server's
            "spec": {"description": "What to train and how.", **spec},
            "status": {"description": "What the operator last saw of the job.", **schema_of(JobStatus)},
        },
    }


def _add_rules(schema: Schema, model: type[BaseModel]) -> None:
    """Put every rule next to the object whose fields it speaks of."""
    rules = [(rule.cel, rule.message, rule.field) for rule in RULES if issubclass(model, rule.scope)]
    if model is JobSpec:
        rules += [(rule.cel, rule.message, rule.field) for rule in transitions()]
    if rules:
        schema["x-kubernetes-validations"] = [
            {"rule": cel, "message": message, "fieldPath": f".{field}"} for cel, message, field in rules
        ]
    for field in model.model_fields.values():
        part = object_type(field.annotation)
        if part is not None:
            _add_rules(schema["properties"][field.alias], part)
