"""Deleting a job, or its namespace, leaves nothing, whether or not the operator runs."""

from __future__ import annotations

from tests.e2e import manifests
from tests.e2e.kubectl import wait_for
from tests.e2e.space import Space


def test_deleting_a_job_deletes_all_that_it_had(space: Space) -> None:
    space.kubectl.apply(manifests.job("gone", workers=2))
    wait_for("its pods", lambda: len(space.pods("gone")) == 2, 30)
    space.kubectl("delete", "disttrainjob", "gone")
    space.nothing_left("gone")


def test_deleting_the_namespace_deletes_the_job_and_all_that_it_had(space: Space) -> None:
    space.kubectl.apply(manifests.job("gone", workers=2))
    wait_for("its pods", lambda: len(space.pods("gone")) == 2, 30)
    space.kubectl("delete", "namespace", space.name, "--timeout=60s")
    assert space.kubectl.get("namespace", space.name) is None


def test_a_job_deleted_and_made_again_at_once_runs(space: Space) -> None:
    space.kubectl.apply(manifests.job("again"))
    wait_for("its pod", lambda: space.pods("again"), 30)
    old = space.job("again")["metadata"]["uid"]
    space.kubectl("delete", "disttrainjob", "again", "--wait=false")
    space.kubectl.apply(manifests.job("again"))

    def owner_of_the_pod() -> bool:
        owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in space.pods("again").values()}
        return bool(owners) and old not in owners

    wait_for("the new job's pod", owner_of_the_pod, 60)
