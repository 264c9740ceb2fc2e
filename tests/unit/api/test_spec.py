"""A role's pods: the shared template with whole parts replaced, or a template of the role's own."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from disttrain.api.parse import parse_job
from disttrain.api.spec import JobSpec
from tests.unit.api import cases


def spec_of(edits: dict[str, Any], strategy: str = "ParameterServer") -> JobSpec:
    job = parse_job(cases.manifest(strategy, edits))
    assert job.spec is not None, job.errors
    return job.spec


def test_roles_are_listed_in_one_order() -> None:
    spec = spec_of({"spec.roles": {"evaluator": {}, "ps": {}, "worker": {"replicas": 2}, "chief": {}}})
    assert spec.roles_in_use() == ("chief", "worker", "ps", "evaluator")


def test_a_role_that_is_not_there_has_no_replicas() -> None:
    assert spec_of({}).replicas("evaluator") == 0


def test_a_role_that_is_not_there_has_no_template() -> None:
    with pytest.raises(KeyError):
        spec_of({}).pod_template("evaluator")


def test_a_role_without_overrides_has_the_shared_template() -> None:
    spec = spec_of({})
    assert spec.pod_template("worker") == spec.template


def test_a_template_is_the_callers_own() -> None:
    spec = spec_of({})
    spec.pod_template("worker")["spec"]["containers"].clear()
    assert spec.pod_template("worker")["spec"]["containers"]


def test_resources_replace_the_trainer_containers_as_a_whole() -> None:
    spec = spec_of(
        {
            f"{cases.CONTAINER}.resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "4"}},
            "spec.template.spec.containers.1": {"name": "proxy", "image": "p"},
            "spec.roles.ps.resources": {"requests": {"cpu": 8}},
        }
    )
    trainer, proxy = spec.pod_template("ps")["spec"]["containers"]
    assert trainer["resources"] == {"requests": {"cpu": 8}}
    assert "resources" not in proxy


def test_node_selector_and_tolerations_replace_the_pods() -> None:
    spec = spec_of(
        {
            "spec.template.spec.nodeSelector": {"pool": "gpu", "zone": "a"},
            "spec.template.spec.tolerations": [{"key": "gpu"}],
            "spec.roles.ps.nodeSelector": {"pool": "cpu"},
            "spec.roles.ps.tolerations": [{"key": "cpu", "tolerationSeconds": 5}],
        }
    )
    pod = spec.pod_template("ps")["spec"]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "cpu"}, [{"key": "cpu", "tolerationSeconds": 5}])


def test_an_empty_override_takes_away() -> None:
    spec = spec_of({"spec.template.spec.nodeSelector": {"pool": "gpu"}, "spec.roles.ps.nodeSelector": {}})
    assert spec.pod_template("ps")["spec"]["nodeSelector"] == {}


def test_a_roles_own_template_takes_nothing_from_the_shared_one() -> None:
    own = {"spec": {"containers": [{"name": "trainer", "image": "own"}]}}
    spec = spec_of({"spec.template.spec.nodeSelector": {"pool": "gpu"}, "spec.roles.ps.template": own})
    assert spec.pod_template("ps") == own


@pytest.mark.parametrize(
    ("names", "index"), [(["tensorflow"], 0), (["proxy", "trainer"], 1), (["trainer", "proxy"], 0)]
)
def test_the_trainer_is_the_one_so_named_or_the_only_one(names: list[str], index: int) -> None:
    assert JobSpec.trainer_index({"spec": {"containers": [{"name": name} for name in names]}}) == index


def test_no_trainer_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 containers and none is named trainer"):
        JobSpec.trainer_index({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError):
        spec_of({}).suspend = True
