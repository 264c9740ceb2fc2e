"""Manifests of jobs for tests, and what their pods are told to do (see tests/cluster/stages.yaml)."""

from __future__ import annotations

from typing import Any

from tests.emulator.kube import Manifest

IMAGE = "example.test/train:1"  # never pulled: KWOK runs nothing
ANNOTATION = "test.disttrain.dev/"


def job(name: str, strategy: str = "MultiWorkerMirrored", roles: Manifest | None = None, **spec: Any) -> Manifest:
    """A valid job: by default two workers under MultiWorkerMirrored. `spec` adds or replaces fields."""
    return {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "metadata": {"name": name},
        "spec": {
            "strategy": strategy,
            "template": template(),
            **({"roles": {"worker": {"replicas": 2}} if roles is None else roles} if roles != {} else {}),
            **spec,
        },
    }


def parameter_server(name: str, workers: int = 2, ps: int = 1, **spec: Any) -> Manifest:
    return job(name, "ParameterServer", {"chief": {}, "worker": {"replicas": workers}, "ps": {"replicas": ps}}, **spec)


def mirrored(name: str, **spec: Any) -> Manifest:
    return job(name, "Mirrored", {}, **spec)


def template(**behaviour: str) -> Manifest:
    """A pod template; `behaviour` becomes KWOK's orders, such as exit_code="1", run_for="1s"."""
    return {"metadata": {"annotations": orders(**behaviour)}, "spec": {"containers": [container()]}}


def container(name: str = "trainer", **fields: Any) -> Manifest:
    return {"name": name, "image": IMAGE, "args": ["train.py"], **fields}


def orders(**behaviour: str) -> dict[str, str]:
    return {ANNOTATION + key.replace("_", "-"): value for key, value in behaviour.items()}


def environment(pod: Manifest, container_name: str = "trainer") -> dict[str, str]:
    """The literal environment variables of a pod's container."""
    found = next(each for each in pod["spec"]["containers"] if each["name"] == container_name)
    return {variable["name"]: variable.get("value", "") for variable in found.get("env", [])}


def conditions(manifest: Manifest) -> dict[str, str]:
    """Condition type -> status of a job."""
    return {each["type"]: each["status"] for each in manifest.get("status", {}).get("conditions", [])}


def condition(manifest: Manifest, kind: str) -> Manifest:
    """A whole condition; empty if it is not there."""
    found = (each for each in manifest.get("status", {}).get("conditions", []) if each["type"] == kind)
    return next(found, {})
