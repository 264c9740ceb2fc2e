"""What is wrong with a job's pods is said by the job, in Kubernetes' words."""

from __future__ import annotations

from tests.e2e import manifests
from tests.e2e.space import Space


def test_an_image_that_is_not_there(space: Space) -> None:
    space.kubectl.apply(manifests.job("missing", image="disttrain.test/nowhere:1", imagePullPolicy="Never"))
    assert space.says("missing", "PodsReady", "disttrain.test/nowhere:1")["status"] == "False"


def test_more_than_any_node_has(space: Space) -> None:
    space.kubectl.apply(manifests.job("huge", resources={"requests": {"cpu": "64"}}))
    assert space.says("huge", "PodsReady", "Insufficient cpu")["status"] == "False"


def test_a_claim_that_does_not_exist(space: Space) -> None:
    job = manifests.job("homeless")
    job["spec"]["storage"] = {"claimName": "nowhere"}
    space.kubectl.apply(job)
    assert space.says("homeless", "PodsReady", "nowhere")["status"] == "False"


def test_more_memory_than_the_limit(space: Space) -> None:
    eat = ["python3", "-c", "bytearray(10**9)"]
    space.kubectl.apply(manifests.job("hungry", command=eat, resources={"limits": {"memory": "100Mi"}}))
    status = space.finished("hungry")
    assert status["phase"] == "Failed"
    assert status["lastFailure"]["reason"] == "OOMKilled"


def test_a_program_that_is_not_in_the_image(space: Space) -> None:
    space.kubectl.apply(manifests.job("wrong", command=["no-such-program"]))
    status = space.finished("wrong")
    assert status["phase"] == "Failed"
    assert "no-such-program" in status["lastFailure"]["message"]


def test_a_pod_that_the_namespace_does_not_admit(make_space) -> None:
    space = make_space(**{"pod-security.kubernetes.io/enforce": "restricted"})
    space.kubectl.apply(manifests.job("refused"))
    assert space.says("refused", "PodsReady", "violates PodSecurity")["reason"] == "CreateRefused"
