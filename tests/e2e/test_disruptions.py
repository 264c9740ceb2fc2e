"""What happens to machines and to the control plane costs a job time, never its result, and is not counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import processes
from tests.cluster.netns.cluster import Netns
from tests.cluster.netns.layout import NODES
from tests.e2e import manifests
from tests.e2e.kubectl import Kubectl, wait_for
from tests.e2e.space import Space

_SECOND = NODES[1]


@pytest.fixture
def training(space: Space) -> Space:
    """A namespace in which the example with two workers trains, one on each node."""
    space.kubectl.apply(manifests.claim(), manifests.example("digits-mwms"))
    space.ready("digits")
    return space


def succeeded(space: Space) -> dict[str, Any]:
    status = space.finished("digits")
    assert status["phase"] == "Succeeded", status["conditions"]
    return status


def test_an_evicted_pod_is_a_disruption(training: Space) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "digits-worker-1"}}
    path = f"/api/v1/namespaces/{training.name}/pods/digits-worker-1/eviction"
    training.kubectl("create", f"--raw={path}", "--filename=-", text=json.dumps(eviction))
    status = succeeded(training)
    assert (status["restarts"], status["disruptions"]) == (0, 1)


def test_an_operator_that_restarts_changes_nothing(training: Space, operator: Kubectl) -> None:
    operator("delete", "pods", "--all")
    operator("rollout", "status", "deployment/disttrain-operator", "--timeout=60s")
    status = succeeded(training)
    assert (status["attempt"], status["restarts"], status["disruptions"]) == (1, 0, 0)


def test_an_api_server_that_restarts_changes_nothing(training: Space, cluster: Netns) -> None:
    (server,) = processes.living(cluster.state, "kube-apiserver")
    processes.restart(cluster.state, server)
    wait_for("the API server", cluster.healthy, 60)
    status = succeeded(training)
    assert (status["attempt"], status["restarts"], status["disruptions"]) == (1, 0, 0)


@pytest.fixture
def crashed(training: Space, cluster: Netns) -> Iterator[None]:
    """The second node loses its power while the job trains on it, and has it again when it was given up."""
    cluster.crash(_SECOND)
    try:
        wait_for("the node's pod to be given up", lambda: "deletionTimestamp" in second_workers(training), 90)
    finally:
        cluster.start_node(_SECOND)
    yield
    wait_for("all of the cluster to run again", cluster.healthy, 120)


def second_workers(space: Space) -> dict[str, Any]:
    """Metadata of the pod that was on the second node."""
    found = space.kubectl.get("pod", "digits-worker-1")
    metadata: dict[str, Any] = found["metadata"] if found else {"deletionTimestamp": "gone"}
    return metadata


def test_a_node_that_crashes_is_a_disruption(training: Space, crashed: None) -> None:
    status = succeeded(training)
    assert status["restarts"] == 0
    assert status["disruptions"] >= 1
