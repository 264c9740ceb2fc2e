"""Where the pods of one job go on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from disttrain import names
from disttrain.api.spec import JobSpec
from disttrain.core.model import Manifest
from disttrain.local.launch import Launch, Machine, launch, trainer_container
from disttrain_agent import contract
from disttrain_agent.cluster import Cluster, tf_config


@dataclass(frozen=True)
class LocalPlacement:
    """`cluster` has loopback addresses; `run_dir` is the job's directory and, here, also its durable storage."""

    spec: JobSpec
    cluster: Cluster
    machine: Machine
    run_dir: Path

    def launch(self, pod: Manifest, termination_log: Path, parent_fd: int) -> Launch:
        """The process for a rendered pod."""
        labels = pod["metadata"]["labels"]
        role, index = cast("names.Role", labels[names.LABEL_ROLE]), int(labels[names.LABEL_INDEX])
        container = trainer_container(self.spec.pod_template(role))
        overrides = {
            **self._overrides(role, index),
            contract.ENV_TERMINATION_LOG: str(termination_log),
            contract.ENV_PARENT_FD: str(parent_fd),
        }
        return launch(pod, container, self.machine, overrides)

    def agent_address(self, role: str, index: int) -> str:
        """`host:port` on loopback."""
        return self.cluster.agent_address(role, index)

    def _overrides(self, role: names.Role, index: int) -> Mapping[str, str]:
        overrides = {
            contract.ENV_CLUSTER: self.cluster.to_json(),
            contract.ENV_RUN_DIR: str(self.run_dir),
            contract.ENV_AGENT_PORT: self.agent_address(role, index).rpartition(":")[2],
        }
        literal = tf_config(self.cluster, role, index)
        # As the operator does it: beyond this size only the agent expands the cluster.
        if literal is not None and sum(self.cluster.replicas.values()) <= contract.MAX_PODS_WITH_LITERAL_TF_CONFIG:
            overrides[contract.ENV_TF_CONFIG] = literal
        return overrides
