"""Every malformed manifest gets one clear error with the field path."""

from __future__ import annotations

from typing import Any

import pytest

from disttrain.api.parse import parse_job
from disttrain.api.rules import RULES
from tests.unit.api import cases


@pytest.mark.parametrize("case", cases.BAD, ids=lambda case: case.id)
def test_a_fault_is_told_once_with_its_path(case: cases.Case) -> None:
    assert [str(error) for error in parse_job(case.manifest).errors] == [case.error]


@pytest.mark.parametrize("case", cases.BAD, ids=lambda case: case.id)
def test_a_faulty_manifest_has_no_spec(case: cases.Case) -> None:
    assert parse_job(case.manifest).spec is None


@pytest.mark.parametrize("case", cases.GOOD, ids=lambda case: case.id)
def test_a_valid_manifest_has_no_errors(case: cases.Case) -> None:
    assert parse_job(case.manifest).errors == ()


def test_several_faults_are_told_together() -> None:
    edits = {
        "metadata.name": "1job",
        "spec.roles.worker.replicas": -1,
        "spec.backofLimit": 1,
        f"{cases.CONTAINER}.resources.limits.cpu": "x",
    }
    job = parse_job(cases.manifest(edits=edits))
    assert [error.path for error in job.errors] == [
        "metadata.name",
        "spec.roles.worker.replicas",
        "spec.backofLimit",
        "spec.template.spec.containers[0].resources.limits[cpu]",
    ]


def test_api_version_and_kind_are_named() -> None:
    job = parse_job({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}, "spec": {}})
    assert [str(error) for error in job.errors][:2] == [
        'apiVersion: must be disttrain.dev/v1alpha1, not "kubeflow.org/v1"',
        'kind: must be DistTrainJob, not "TFJob"',
    ]


def test_an_empty_object_lacks_everything() -> None:
    assert [str(error) for error in parse_job({}).errors] == [
        "apiVersion: is required: disttrain.dev/v1alpha1",
        "kind: is required: DistTrainJob",
        "metadata: is required",
        "spec: is required",
    ]


def test_a_template_that_could_not_be_stored_is_refused() -> None:
    many = [{"name": f"A{index}", "value": "x" * 100_000} for index in range(11)]
    job = parse_job(cases.manifest(edits={f"{cases.CONTAINER}.env": many}))
    assert [str(error) for error in job.errors] == [
        "spec.template: is larger than 1,048,576 bytes; Kubernetes could not store its pods"
    ]


def test_a_template_nested_without_end_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    manifest = cases.manifest()
    manifest["spec"]["template"]["spec"]["affinity"] = deep
    assert [str(error) for error in parse_job(manifest).errors] == ["spec.template: is nested deeper than 64 levels"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.field}: {rule.message}")
def test_every_rule_has_a_manifest_that_breaks_it(rule: Any) -> None:
    broken = [case.error for case in (*cases.RULES, *cases.LATER)]
    assert any(rule.message in error and f"{rule.field}:" in error for error in broken)
