"""The manifests of the tests: the examples, small changes of them, and pods that stand around."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.images.names import BUSYBOX

ROOT = Path(__file__).resolve().parents[2]
RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_RESTRICTED: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def example(name: str) -> dict[str, Any]:
    """examples/<name>.yaml, as it is."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    return loaded


def claim(name: str = "digits") -> dict[str, Any]:
    """What the examples keep their results on: of the default class, mounted by many."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def job(name: str, *, workers: int = 1, **container: Any) -> dict[str, Any]:
    """A job of pods of the default image that sleep, or do what `container` says instead: no TensorFlow, quick."""
    main = {"name": "trainer", "command": ["sleep", "600"], **container}
    strategy = "MultiWorkerMirrored" if workers > 1 else "Mirrored"
    return {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "metadata": {"name": name},
        "spec": {
            "strategy": strategy,
            "backoffLimit": 0,
            "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}},
            **({"roles": {"worker": {"replicas": workers}}} if workers > 1 else {}),
        },
    }


def restricted(manifest: dict[str, Any]) -> dict[str, Any]:
    """The job with the security context that Pod Security's level `restricted` asks for."""
    changed = copy.deepcopy(manifest)
    template = changed["spec"]["template"]["spec"]
    template["securityContext"] = RESTRICTED
    for container in template["containers"]:
        container["securityContext"] = CONTAINER_RESTRICTED
    return changed


def stranger(name: str = "stranger") -> dict[str, Any]:
    """A pod that belongs to no job."""
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [container]},
    }


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
