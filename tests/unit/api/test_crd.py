"""The CRD: generated, small, bounded, described; what is not built yet is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from disttrain.api import crd, render
from disttrain.api.rules import RULES, transitions
from tests.unit.api import cases

VERSION = crd.custom_resource_definition()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from walk(part, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from walk(schema[keyword], f"{path}[]")


NODES = [(path, node) for path, node in walk(SCHEMA) if path not in (".apiVersion", ".kind", ".metadata")]


def at(path: str) -> dict[str, Any]:
    node = SPEC
    for step in path.split("."):
        node = node["properties"][step]
    return node


def described(path: str) -> bool:
    """Items of lists and maps are described by the field that holds them, roles by their names."""
    return not path.endswith("[]") and path.rpartition(".")[0] != ".status.roles"


def test_the_generated_files_are_up_to_date() -> None:
    assert render.stale() == []


def test_it_is_small_enough_for_kubectl_apply() -> None:
    assert len(render.rendered()["crd.yaml"].encode()) < crd.MAX_BYTES


def test_the_check_finds_a_stale_file(tmp_path: Any) -> None:
    for part in ("rbac.yaml", "admission.yaml", "operator.yaml"):
        (tmp_path / part).write_text("{}\n")
    (tmp_path / "crd.yaml").write_text("old")
    assert render.stale(tmp_path) == ["crd.yaml", "install.yaml"]


def test_every_field_is_described() -> None:
    assert [path for path, node in NODES if described(path) and not node.get("description")] == []


@pytest.mark.parametrize(("kind", "bound"), [("integer", "maximum"), ("array", "maxItems"), ("integer", "minimum")])
def test_everything_is_bounded(kind: str, bound: str) -> None:
    assert [path for path, node in NODES if node.get("type") == kind and bound not in node] == []


def test_every_text_is_bounded() -> None:
    texts = [(path, node) for path, node in NODES if node.get("type") == "string"]
    assert [path for path, node in texts if not node.keys() & {"maxLength", "enum", "format"}] == []


def test_every_map_is_bounded() -> None:
    assert [path for path, node in NODES if "additionalProperties" in node and "maxProperties" not in node] == []


def test_there_are_no_references_nulls_or_floats() -> None:
    assert [path for path, node in NODES if node.keys() & {"$ref", "nullable"} or node.get("type") == "number"] == []


def test_the_only_default_of_the_schema_is_one_replica() -> None:
    defaults = {path.rpartition(".")[2]: node["default"] for path, node in NODES if "default" in node}
    assert defaults == {"replicas": 1}


def test_templates_are_opaque() -> None:
    opaque = {path for path, node in NODES if node.get("x-kubernetes-preserve-unknown-fields")}
    roles = ("chief", "worker", "ps", "evaluator", "dataDispatcher", "dataWorker")
    own = {f".spec.roles.{role}.template" for role in roles}
    assert opaque == {".spec.template", ".spec.storage.claimTemplate.spec", *own}


def test_no_rule_looks_into_or_compares_a_template() -> None:
    rules = [rule["rule"] for _, node in NODES for rule in node.get("x-kubernetes-validations", ())]
    assert [rule for rule in rules if "template " in rule or "template." in rule or "oldSelf.template" in rule] == []


def test_columns() -> None:
    columns = [column["name"] for column in VERSION["additionalPrinterColumns"]]
    assert columns == ["Strategy", "Phase", "Ready", "Progress", "Restarts", "Age"]


def test_names() -> None:
    names = crd.custom_resource_definition()["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == ("disttrainjobs", ["dtj"], ["all"])


def test_the_scale_subresource_is_the_workers() -> None:
    assert VERSION["subresources"]["scale"]["specReplicasPath"] == ".spec.roles.worker.replicas"


def test_the_paths_that_kueue_reads() -> None:
    assert {"suspend", "managedBy"} <= SPEC["properties"].keys()


def test_every_rule_between_fields_is_in_the_schema() -> None:
    said = {rule["rule"] for _, node in NODES for rule in node.get("x-kubernetes-validations", ())}
    assert {rule.cel for rule in RULES} <= said


def test_every_field_of_a_rule_exists() -> None:
    for _, node in NODES:
        for rule in node.get("x-kubernetes-validations", ()):
            part = node
            for step in rule["fieldPath"].removeprefix(".").split("."):
                part = part["properties"][step]


@pytest.mark.parametrize("case", cases.LATER, ids=lambda case: case.id)
def test_what_is_not_built_yet_is_in_the_schema_and_refused(case: cases.Case) -> None:
    field = case.error.removeprefix("spec.").removesuffix(": not in this version")
    assert at(field)
    refused = {
        rule["fieldPath"] for rule in SPEC["x-kubernetes-validations"] if rule["message"] == "not in this version"
    }
    assert f".{field}" in refused


def test_what_cannot_change() -> None:
    fixed = {rule.field for rule in transitions() if rule.message == "field is immutable"}
    assert fixed == {
        "strategy",
        "managedBy",
        "successPolicy",
        "network",
        "recovery",
        "storage",
        "roles.ps.replicas",
    }


def test_roles_are_neither_added_nor_removed() -> None:
    rules = {rule.field for rule in transitions() if "neither added nor removed" in rule.message}
    assert rules == {"roles.chief", "roles.worker", "roles.ps", "roles.evaluator"}


def test_the_crd_is_yaml_that_reads_back_equal() -> None:
    assert yaml.safe_load(render.rendered()["crd.yaml"]) == crd.custom_resource_definition()
