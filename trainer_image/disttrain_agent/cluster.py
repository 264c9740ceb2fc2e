"""The one definition of a job's cluster: about 300 bytes that expand to every address and to every TF_CONFIG.

Used by the operator (golden files, the literal TF_CONFIG of small jobs), by `disttrain run` and by the agent, so they
cannot disagree. Pure; stdlib only; Python >= 3.9.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from disttrain_agent.contract import AGENT_PORT, TF_PORT

MIRRORED = "Mirrored"
MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
PARAMETER_SERVER = "ParameterServer"

# The task types of tf.distribute's cluster map, in the order in which we write them. The evaluator is never in the
# map: the coordinator would connect to it and hang (tensorflow/tensorflow#46169).
CLUSTER_ROLES: dict[str, tuple[str, ...]] = {
    MIRRORED: (),
    MULTI_WORKER_MIRRORED: ("chief", "worker"),
    PARAMETER_SERVER: ("chief", "worker", "ps"),
}


@dataclass(frozen=True)
class Cluster:
    """What every pod of a job is told of the whole job.

    `replicas` maps a role to its number of pods. `addresses` and `agents` map a role to explicit `host:port` strings,
    one for each index; they are given by `disttrain run`, where every process has ports of its own on loopback. In a
    cluster they are empty and the names follow from job, namespace and domain.
    """

    job: str
    namespace: str
    domain: str
    strategy: str
    replicas: Mapping[str, int]
    port: int = TF_PORT
    agent_port: int = AGENT_PORT
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def host(self, role: str, index: int) -> str:
        """The pod's name in the cluster's DNS: pod hostname + the job's headless Service (Kubernetes DNS spec)."""
        return f"{self.job}-{role}-{index}.{self.job}.{self.namespace}.svc.{self.domain}"

    def tf_address(self, role: str, index: int) -> str:
        """`host:port` of a task's TensorFlow server."""
        if role in self.addresses:
            return self.addresses[role][index]
        return f"{self.host(role, index)}:{self.port}"

    def agent_address(self, role: str, index: int) -> str:
        """`host:port` of a task's agent."""
        if role in self.agents:
            return self.agents[role][index]
        return f"{self.host(role, index)}:{self.agent_port}"

    def members(self) -> list[tuple[str, int]]:
        """Every (role, index) of TensorFlow's cluster map, chief first; empty under Mirrored."""
        return [(role, index) for role in CLUSTER_ROLES[self.strategy] for index in range(self.replicas.get(role, 0))]

    def leader(self) -> tuple[str, int]:
        """Who saves and exports: the chief, or worker 0 where there is none (tf.distribute's own rule)."""
        return ("chief", 0) if self.replicas.get("chief", 0) else ("worker", 0)

    def to_json(self) -> str:
        """Compact JSON with sorted keys: the same cluster is the same bytes in every pod."""
        data: dict[str, object] = {
            "job": self.job,
            "namespace": self.namespace,
            "domain": self.domain,
            "strategy": self.strategy,
            "replicas": dict(self.replicas),
            "port": self.port,
            "agentPort": self.agent_port,
        }
        if self.addresses:
            data["addresses"] = {role: list(value) for role, value in self.addresses.items()}
        if self.agents:
            data["agents"] = {role: list(value) for role, value in self.agents.items()}
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Cluster:
        """The inverse of `to_json`. Raises ValueError naming what is wrong."""
        try:
            data = json.loads(text)
            strategy = data["strategy"]
            if strategy not in CLUSTER_ROLES:
                raise ValueError(f"unknown strategy {strategy!r}")
            return Cluster(
                job=data["job"],
                namespace=data["namespace"],
                domain=data["domain"],
                strategy=strategy,
                replicas={str(role): int(count) for role, count in data["replicas"].items()},
                port=int(data["port"]),
                agent_port=int(data["agentPort"]),
                addresses=data.get("addresses", {}),
                agents=data.get("agents", {}),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the cluster description is incomplete: {error!r}") from error


def tf_config(cluster: Cluster, role: str, index: int) -> str | None:
    """TF_CONFIG for one task, as tf.distribute reads it; None where TensorFlow must not get one (Mirrored).

    https://www.tensorflow.org/guide/distributed_training#TF_CONFIG: `cluster` maps task types to `host:port` lists,
    `task` says which of them this process is. An evaluator gets the map without itself in it.
    """
    members = cluster.members()
    if not members:
        return None
    addresses: dict[str, list[str]] = {}
    for member_role, member_index in members:
        addresses.setdefault(member_role, []).append(cluster.tf_address(member_role, member_index))
    return json.dumps({"cluster": addresses, "task": {"type": role, "index": index}}, separators=(",", ":"))
