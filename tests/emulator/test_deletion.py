"""Deletion, and names that somebody else has."""

from __future__ import annotations

from tests.emulator.jobs import IMAGE, condition, job, parameter_server, template
from tests.emulator.kube import Manifest
from tests.emulator.space import OURS, Space


async def test_nothing_is_left_of_a_deleted_job(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    await space.delete("digits")
    await space.empty()
    left = {kind: await space.kube.list(kind, space.name) for kind in OURS}
    assert left == {kind: [] for kind in OURS}


async def test_nothing_is_left_of_a_job_deleted_while_its_pods_are_made(space: Space) -> None:
    await space.submit(job("digits", roles={"worker": {"replicas": 20}}))
    await space.until(space.pods, "the first pod is there")
    await space.delete("digits")
    await space.until(lambda: "digits" not in space.watch("DistTrainJob").objects, "the job is gone")
    await space.empty()


def uid_of(manifest: Manifest) -> str | None:
    uid: str | None = manifest.get("metadata", {}).get("uid")
    return uid


async def test_a_job_made_again_at_once_waits_for_its_predecessors_pods(space: Space) -> None:
    await space.submit(job("digits", template=template(stop_after="2s")))
    old = (await space.phase("digits", "Running"))["metadata"]["uid"]
    await space.delete("digits")
    new = (await space.submit(job("digits")))["metadata"]["uid"]
    await space.until(
        lambda: uid_of(space.job("digits")) == new and space.status("digits").get("phase") == "Running",
        "the second job runs",
    )
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in space.pods().values()}
    reasons = {
        condition(version, "PodsReady").get("reason")
        for version in space.watch("DistTrainJob").versions("digits")
        if version["metadata"]["uid"] != old
    }
    assert owners == {new}
    assert "WaitingForPredecessor" in reasons


def foreign_pod(name: str) -> Manifest:
    containers = [{"name": "main", "image": IMAGE}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


async def blocked(space: Space) -> str:
    """What job `digits` says of a name in use."""
    await space.until(
        lambda: condition(space.job("digits"), "PodsReady").get("reason") == "NameInUse",
        "the job says that a name is in use",
    )
    return str(condition(space.job("digits"), "PodsReady")["message"])


async def test_a_strangers_pod_with_our_name_is_named_and_not_touched(space: Space) -> None:
    await space.kube.create(foreign_pod("digits-worker-1"), space.name)
    await space.running_pods("digits-worker-1")
    stranger = await space.kube.get("Pod", space.name, "digits-worker-1")
    await space.submit(job("digits"))
    assert "digits-worker-1" in await blocked(space)
    assert await space.kube.get("Pod", space.name, "digits-worker-1") == stranger


async def test_a_strangers_service_with_our_name_is_named_and_not_touched(space: Space) -> None:
    service: Manifest = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "digits"}}
    stranger = await space.kube.create({**service, "spec": {"ports": [{"port": 80}]}}, space.name)
    await space.submit(job("digits"))
    assert "Service digits" in await blocked(space)
    assert await space.kube.get("Service", space.name, "digits") == stranger
    assert space.pods() == {}


async def test_the_job_runs_once_the_stranger_is_gone(space: Space) -> None:
    await space.kube.create(foreign_pod("digits-worker-1"), space.name)
    await space.submit(job("digits"))
    await blocked(space)
    await space.delete("digits-worker-1", "Pod")
    await space.phase("digits", "Running")


async def test_a_job_says_what_a_quota_refuses_and_goes_on_when_it_is_lifted(space: Space) -> None:
    quota: Manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    await space.kube.create({**quota, "spec": {"hard": {"pods": "1"}}}, space.name)
    await space.submit(job("digits"))
    await space.until(
        lambda: condition(space.job("digits"), "PodsReady").get("reason") == "CreateRefused",
        "the job says that a pod was refused",
    )
    assert "exceeded quota" in condition(space.job("digits"), "PodsReady")["message"]
    await space.delete("small", "ResourceQuota")
    await space.phase("digits", "Running")
