"""The examples train in pods to the accuracy that they reach on one machine."""

from __future__ import annotations

import pytest

from tests.e2e import manifests
from tests.e2e.kubectl import wait_for
from tests.e2e.space import Space

_ACCURACY = 0.95


def accuracy(status: dict) -> float:
    return float(next(metric["value"] for metric in status["model"]["metrics"] if metric["name"] == "accuracy"))


@pytest.mark.parametrize("example", ["digits-mwms", "digits-ps", "digits-mirrored"])
def test_an_example_trains_to_its_accuracy(space: Space, example: str) -> None:
    job = manifests.example(example)
    space.kubectl.apply(manifests.claim(), job)
    status = space.finished(job["metadata"]["name"])
    assert status["phase"] == "Succeeded", status["conditions"]
    assert accuracy(status) >= _ACCURACY
    assert status["restarts"] == 0


def test_two_workers_are_on_different_nodes_and_their_model_is_loaded_by_another_pod(space: Space) -> None:
    space.kubectl.apply(manifests.claim(), manifests.example("digits-mwms"))
    space.ready("digits")  # a worker that still ends when the job has succeeded is deleted: asked while both run
    assert {pod["spec"]["nodeName"] for pod in space.pods("digits").values()} == {"node-1", "node-2"}
    status = space.finished("digits")
    reader = manifests.stranger("reader")
    container = reader["spec"]["containers"][0]
    container["image"] = "disttrain-trainer:0.1.0"
    container["command"] = ["python3", "predict.py", status["model"]["location"]]
    container["volumeMounts"] = [{"name": "results", "mountPath": "/disttrain"}]
    reader["spec"]["volumes"] = [{"name": "results", "persistentVolumeClaim": {"claimName": "digits"}}]
    space.kubectl.apply(reader)
    wait_for("the reader to end", lambda: phase(space, "reader") in ("Succeeded", "Failed"), 120)
    assert phase(space, "reader") == "Succeeded"
    assert "accuracy 0.9" in space.kubectl("logs", "reader")


def phase(space: Space, pod: str) -> str:
    found = space.kubectl.get("pod", pod)
    return found["status"].get("phase", "") if found else ""


def test_a_deleted_pod_is_made_again_and_the_job_succeeds_without_a_counted_restart(space: Space) -> None:
    space.kubectl.apply(manifests.claim(), manifests.example("digits-mwms"))
    space.ready("digits")
    space.kubectl("delete", "pod", "digits-worker-1", "--wait=false")
    status = space.finished("digits")
    assert status["phase"] == "Succeeded", status["conditions"]
    assert (status["restarts"], status["disruptions"]) == (0, 1)


def test_a_namespace_that_enforces_restricted_runs_a_job_that_asks_for_no_more(make_space) -> None:
    space = make_space(**{"pod-security.kubernetes.io/enforce": "restricted"})
    space.kubectl.apply(manifests.claim(), manifests.restricted(manifests.example("digits-mwms")))
    status = space.finished("digits")
    assert status["phase"] == "Succeeded", status["conditions"]
