"""What is installed: no more rights than the operator uses, and a pod that the strictest policy admits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[3] / "manifests"
INSTALL: list[dict[str, Any]] = list(yaml.safe_load_all((MANIFESTS / "install.yaml").read_text()))


def the(kind: str) -> dict[str, Any]:
    (found,) = [entry for entry in INSTALL if entry["kind"] == kind]
    return found


def test_everything_is_in_one_file() -> None:
    assert sorted(entry["kind"] for entry in INSTALL) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Deployment",
        "Namespace",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_the_operator_may_do_exactly_this() -> None:
    granted = {
        (group, resource, verb)
        for rule in the("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    owned = (("", "pods"), ("", "services"), ("networking.k8s.io", "networkpolicies"))
    assert granted == {
        ("disttrain.dev", "disttrainjobs", "list"),
        ("disttrain.dev", "disttrainjobs", "watch"),
        ("disttrain.dev", "disttrainjobs/status", "patch"),
        ("events.k8s.io", "events", "create"),
        *((group, resource, verb) for group, resource in owned for verb in ("create", "delete", "list", "watch")),
    }


def test_rights_go_to_the_operators_account_only() -> None:
    account = {"kind": "ServiceAccount", "name": "disttrain-operator", "namespace": "disttrain-system"}
    assert the("ClusterRoleBinding")["subjects"] == [account]
    assert the("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "disttrain-operator"


def test_the_namespace_takes_restricted_pods_only() -> None:
    labels = the("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_operator_is_such_a_pod() -> None:
    """The controls of the Pod Security Standard "restricted" that a pod must set itself."""
    pod = the("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_there_is_never_a_second_operator() -> None:
    spec = the("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_a_failing_policy_denies() -> None:
    policies = [entry["spec"] for entry in INSTALL if entry["kind"] == "ValidatingAdmissionPolicy"]
    assert [policy["failurePolicy"] for policy in policies] == ["Fail", "Fail"]


def test_the_requester_is_checked_for_scale_too() -> None:
    policy = next(entry for entry in INSTALL if entry["metadata"]["name"] == "requester.disttrainjobs.disttrain.dev")
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    matched = {
        (operation, resource) for rule in rules for operation in rule["operations"] for resource in rule["resources"]
    }
    assert matched == {("CREATE", "disttrainjobs"), ("UPDATE", "disttrainjobs"), ("UPDATE", "disttrainjobs/scale")}
