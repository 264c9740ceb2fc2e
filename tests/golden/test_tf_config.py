"""TF_CONFIG of every task of every strategy, as files; and that replicas differ in their task only (I9)."""

from __future__ import annotations

import json

import pytest

from disttrain.core import tf_config
from disttrain_agent.cluster import Cluster

CLUSTERS = {
    "mirrored": ("Mirrored", {"worker": 1}),
    "multi-worker-mirrored": ("MultiWorkerMirrored", {"worker": 2}),
    "multi-worker-mirrored-chief": ("MultiWorkerMirrored", {"chief": 1, "worker": 2}),
    "multi-worker-mirrored-evaluator": ("MultiWorkerMirrored", {"worker": 1, "evaluator": 1}),
    "parameter-server": ("ParameterServer", {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}),
}


def composed(name: str) -> dict[str, str | None]:
    """TF_CONFIG by replica."""
    strategy, replicas = CLUSTERS[name]
    cluster = Cluster(job="recsys", namespace="team-a", domain="cluster.local", strategy=strategy, replicas=replicas)
    slots = [(role, index) for role, count in replicas.items() for index in range(count)]
    return {f"{role}-{index}": tf_config.literal(cluster, role, index) for role, index in slots}


@pytest.mark.parametrize("name", CLUSTERS)
def test_tf_config(name, golden):
    lines = [f"{replica} {config}" for replica, config in composed(name).items()]
    golden.matches(f"tf-config/{name}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", [name for name in CLUSTERS if name != "mirrored"])
def test_replicas_differ_in_their_task_only(name):
    clusters = {json.dumps(json.loads(config)["cluster"]) for config in composed(name).values()}
    assert len(clusters) == 1


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_evaluator_is_in_nobodys_cluster(name):
    assert all("evaluator" not in json.loads(config)["cluster"] for config in composed(name).values() if config)
