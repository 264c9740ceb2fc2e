"""The shell and the real core together: a second look, before the watch has caught up, does nothing twice."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from typing_extensions import override

from disttrain import names
from disttrain.controller.cache import Cache
from disttrain.controller.keys import POD
from disttrain.controller.metrics import Metrics
from disttrain.controller.reconcile import Reconciler, Surroundings
from disttrain.core.model import Manifest, Settings
from disttrain.core.plan import plan
from tests.unit.controller.fakes import JOB_UID, KEY, NOW, FakeApi, FakeIndexes, FakeTimers, deleting, job_manifest


class Cluster:
    """The reconciler with the real core; the API server's pods are kept by the test."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.api = RememberingApi()
        self.cache = Cache(self.timers.time)
        self.watch = FakeIndexes(self.cache)
        around = Surroundings(Settings("trainer:1", "agent:1"), "operator-0", self._now, self.timers.time)
        self.reconciler = Reconciler(self.cache, self.api, plan, around, Metrics())
        self.watch.told(job_manifest(10))

    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.timers.now)

    async def look(self) -> None:
        await self.reconciler.reconcile(KEY)

    async def look_until_quiet(self) -> None:
        """As the queue would: again and again, with time passing, until nothing is written and nothing held back."""
        written = [-1, -1]
        for _ in range(20):
            await self.look()
            self.timers.advance(2)
            written.append(len(self.api.calls))
            if written[-1] == written[-3]:
                return
        pytest.fail(f"it never becomes quiet: {self.api.calls}")

    def pod_now(self, index: int, version: int, container: Manifest, phase: str) -> None:
        """The watch tells of a pod's new state."""
        body = self.api.pods[f"{KEY.name}-worker-{index}"]
        metadata = {**body["metadata"], "resourceVersion": str(version)}
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
            "containerStatuses": [{"name": "trainer", "ready": phase == "Running", "state": container}],
        }
        self.watch.told({**body, "metadata": metadata, "status": status})


class RememberingApi(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Manifest] = {}

    @override
    async def create(self, manifest: Manifest) -> Manifest:
        stored = await super().create(manifest)
        if manifest["kind"] == POD:
            self.pods[manifest["metadata"]["name"]] = stored
            self.delete_answers[manifest["metadata"]["name"]] = deleting(stored, 900)
        return stored


RUNNING = {"running": {"startedAt": "2026-12-01T20:00:05Z"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-12-01T20:01:00Z"}}


@pytest.fixture
async def cluster() -> Cluster:
    cluster = Cluster()
    await cluster.look_until_quiet()
    return cluster


async def test_a_new_job_becomes_its_objects_each_made_once(cluster: Cluster) -> None:
    made = [name for name in cluster.api.named("create") if not name[0].isupper()]  # events are named by their reason
    assert sorted(made) == ["recsys", "recsys", "recsys-worker-0", "recsys-worker-1"]
    assert len(cluster.api.statuses) == 2, "one when it was accepted, one when its pods were there"


async def test_nothing_is_written_while_nothing_happens(cluster: Cluster) -> None:
    before = len(cluster.api.calls)
    for _ in range(5):
        cluster.timers.advance(600)
        await cluster.look()
    assert len(cluster.api.calls) == before


async def test_a_failure_is_counted_once_although_the_watch_says_nothing_of_our_writes(cluster: Cluster) -> None:
    cluster.pod_now(0, 200, RUNNING, "Running")
    cluster.pod_now(1, 201, RUNNING, "Running")
    await cluster.look_until_quiet()
    cluster.pod_now(0, 300, FAILED, "Failed")
    await cluster.look_until_quiet()
    assert cluster.api.statuses[-1]["restarts"] == 1
    assert cluster.api.statuses[-1]["attempt"] == 2
    assert sorted(cluster.api.named("delete")) == ["recsys-worker-0", "recsys-worker-1"]


async def test_the_next_attempts_pods_are_made_when_the_old_ones_are_gone(cluster: Cluster) -> None:
    cluster.pod_now(0, 300, FAILED, "Failed")
    await cluster.look_until_quiet()
    old = dict(cluster.api.pods)
    for body in old.values():
        cluster.watch.forgot(body)
        cluster.cache.gone(POD, KEY, body["metadata"]["uid"], 950)
    await cluster.look_until_quiet()
    assert {body["metadata"]["labels"][names.LABEL_ATTEMPT] for body in cluster.api.pods.values()} == {"2"}
    assert {owner["uid"] for body in cluster.api.pods.values() for owner in body["metadata"]["ownerReferences"]} == {
        JOB_UID
    }
