"""The objects a job is made of: pods, one headless Service, one NetworkPolicy.

Builders return JSON-compatible data that nobody may change: pods of one role share their unchanging parts, since a job
may have thousands. The user's template is kept but for what `disttrain.core.blueprint` lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from disttrain import names
from disttrain.api.spec import JobSpec
from disttrain.core import tf_config
from disttrain.core.blueprint import Blueprint, blueprint, run_directory
from disttrain.core.model import Job, Manifest, Settings
from disttrain.core.view import ChildKind, Slot, pod_name
from disttrain_agent import contract
from disttrain_agent.cluster import Cluster

__all__ = ["child", "cluster", "network_policy", "pod", "pod_name", "pods", "run_directory", "service"]

_EVERY_PORT: Final = (1, 65_535)


def cluster(job: Job, settings: Settings) -> Cluster:
    """What every pod is told of the whole job. Raises ValueError for a job without a valid spec."""
    return tf_config.describe(job, _spec(job), settings)


def pod(job: Job, role: names.Role, index: int, attempt: int, settings: Settings) -> Manifest:
    """One pod of the job. Raises ValueError for a job without a valid spec, KeyError for a role it does not have."""
    return _Maker(job, settings, attempt).pod(role, index)


def pods(job: Job, slots: Iterable[Slot], settings: Settings) -> tuple[Manifest, ...]:
    """The pods of several slots in the job's current attempt (status.attempt)."""
    maker = _Maker(job, settings, job.status.attempt)
    return tuple(maker.pod(role, index) for role, index in slots)


def child(kind: ChildKind, job: Job, settings: Settings) -> Manifest:
    """The job's Service or NetworkPolicy."""
    return service(job) if kind == "Service" else network_policy(job, settings)


def service(job: Job) -> Manifest:
    """The headless Service under whose name every pod has a DNS name, ready or not: TensorFlow starts by finding peers.

    It selects by uid: the pods of a deleted job of the same name must not answer for this one's.
    """
    ports = ((names.PORT_NAME_TF, names.TF_PORT), (names.PORT_NAME_AGENT, names.AGENT_PORT))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.name, _labels(job)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB_UID: job.uid},
            "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports],
        },
    }


def network_policy(job: Job, settings: Settings) -> Manifest:
    """Closes TensorFlow's port and the agent's to all but the job's own pods (and the agent's to the operator).

    TensorFlow's gRPC server has no authentication: whoever reaches it runs code. A policy that selects a pod denies
    every port that it does not allow, so all other ports are opened again by ranges: whether somebody may reach, say, a
    TensorBoard in the user's pod is the user's own policies' business.
    """
    peers = {"podSelector": {"matchLabels": {names.LABEL_JOB_UID: job.uid}}}
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.operator_namespace}},
        "podSelector": {"matchLabels": {names.LABEL_APP_NAME: names.APP_NAME}},
    }
    first, last = _EVERY_PORT
    others = [
        _port_range("TCP", first, names.TF_PORT - 1),
        _port_range("TCP", names.AGENT_PORT + 1, last),
        _port_range("UDP", first, last),
    ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(job, job.name, _labels(job)),
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_JOB_UID: job.uid}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [peers], "ports": [_port(names.TF_PORT), _port(names.AGENT_PORT)]},
                {"from": [operator], "ports": [_port(names.AGENT_PORT)]},
                {"ports": others},
            ],
        },
    }


def _port(number: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": number}


def _port_range(protocol: str, first: int, last: int) -> dict[str, Any]:
    return {"protocol": protocol, "port": first, "endPort": last}


@dataclass
class _Maker:
    """Makes pods of one attempt; what pods of a role share is worked out once."""

    job: Job
    settings: Settings
    attempt: int

    def __post_init__(self) -> None:
        spec = _spec(self.job)
        self._spec = spec
        self._cluster = tf_config.describe(self.job, spec, self.settings)
        self._blueprints: dict[names.Role, Blueprint] = {}
        self._shared = self._shared_environment()

    def pod(self, role: names.Role, index: int) -> Manifest:
        if role not in self._blueprints:
            self._blueprints[role] = blueprint(self.job, self._spec, role, self.settings)
        common = self._blueprints[role]
        name = pod_name(self.job.name, role, index)
        containers = list(common.pod["containers"])
        trainer = containers[common.trainer]
        environment = self._environment(role, index, common.grace_seconds)
        ours = [{"name": key, "value": value} for key, value in environment.items()]
        containers[common.trainer] = {**trainer, "env": [*ours, *trainer["env"]]}
        ours_labels = {**_labels(self.job), names.LABEL_ROLE: role, names.LABEL_INDEX: str(index)}
        labels = {**common.labels, **ours_labels, names.LABEL_ATTEMPT: str(self.attempt)}
        metadata = _metadata(self.job, name, labels)
        if common.annotations:
            metadata["annotations"] = common.annotations
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**common.pod, "hostname": name, "containers": containers},
        }

    def _environment(self, role: names.Role, index: int, grace_seconds: int) -> dict[str, str]:
        environment = {
            contract.ENV_ROLE: role,
            contract.ENV_INDEX: str(index),
            contract.ENV_GRACE_SECONDS: str(grace_seconds),
            **self._shared,
        }
        literal = tf_config.literal(self._cluster, role, index)
        if literal is not None:
            environment[contract.ENV_TF_CONFIG] = literal
        return environment

    def _shared_environment(self) -> dict[str, str]:
        environment = {
            contract.ENV_JOB: self.job.name,
            contract.ENV_JOB_UID: self.job.uid,
            contract.ENV_NAMESPACE: self.job.namespace,
            contract.ENV_STRATEGY: self._spec.strategy,
            contract.ENV_ATTEMPT: str(self.attempt),
            contract.ENV_CLUSTER: self._cluster.to_json(),
            contract.ENV_CHECKPOINT: _compact(self._spec.checkpoint.model_dump(by_alias=True, exclude_none=True)),
        }
        if self._spec.storage is not None:
            environment[contract.ENV_RUN_DIR] = run_directory(self.job, self._spec.storage)
        return environment


def _compact(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _spec(job: Job) -> JobSpec:
    if job.spec is None:
        raise ValueError(f"DistTrainJob {job.namespace}/{job.name} has no valid spec, so nothing can be made of it")
    return job.spec


def _labels(job: Job) -> dict[str, str]:
    return {names.LABEL_JOB_NAME: job.name, names.LABEL_JOB_UID: job.uid}


def _metadata(job: Job, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Owned without blockOwnerDeletion: that would ask for a permission and let the job wait for its children."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }
    return {"name": name, "namespace": job.namespace, "labels": labels, "ownerReferences": [owner]}
