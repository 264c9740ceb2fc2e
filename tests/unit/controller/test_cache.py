"""The cache: the newest version counts, whether a watch or an answer brought it, and what is gone stays gone."""

from __future__ import annotations

import pytest

from disttrain.controller.cache import FOREIGN_SECONDS, TOMBSTONE_SECONDS, Cache, World
from disttrain.controller.keys import JOB, NETWORK_POLICY, POD, SERVICE, JobKey
from disttrain.controller.streams import Listing, StreamKey
from tests.unit.controller.fakes import JOB_UID, KEY, FakeIndexes, FakeTimers, deleting, job_manifest, owned, pod


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()


@pytest.fixture
def cache(timers: FakeTimers) -> Cache:
    return Cache(timers.time)


@pytest.fixture
def watch(cache: Cache) -> FakeIndexes:
    return FakeIndexes(cache)


def world(cache: Cache, key: JobKey = KEY) -> World:
    found = cache.observed(key)
    assert found is not None
    return found


def pods(cache: Cache) -> list[str]:
    return [each.uid for each in world(cache).observed.pods]


# --- what the watch tells ---


def test_a_job_that_nobody_told_of_is_not_there(cache: Cache, watch: FakeIndexes) -> None:
    assert cache.observed(KEY) is None


def test_a_job_is_seen_with_its_pods_and_children(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(
        job_manifest(10), pod(0), pod(1), owned(SERVICE, KEY.name, 5, "s"), owned(NETWORK_POLICY, KEY.name, 6, "n")
    )
    seen = world(cache)
    assert (seen.job.uid, seen.resource_version) == (JOB_UID, "10")
    assert [each.index for each in seen.observed.pods] == [0, 1]
    assert {child.kind for child in seen.observed.children} == {SERVICE, NETWORK_POLICY}


def test_a_predecessors_pods_are_seen_with_their_owner(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0, owner="old-job"))
    assert [each.owner_uid for each in world(cache).observed.pods] == ["old-job"]


def test_of_two_jobs_with_one_name_the_newer_counts(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10, uid="old"), job_manifest(30, uid="new"))
    assert world(cache).job.uid == "new"


def test_an_object_without_our_label_is_nothing_of_ours(cache: Cache) -> None:
    stray = pod(0)
    stray["metadata"]["labels"] = {}
    assert cache.read(POD, stray) is None


def test_the_spec_is_parsed_once_for_a_generation(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10))
    first = world(cache).job.spec
    watch.told(job_manifest(11, status={"attempt": 3}))
    again = world(cache).job
    assert again.spec is first
    assert again.status.attempt == 3


def test_a_new_generation_is_parsed_anew(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10))
    changed = job_manifest(11, generation=2)
    changed["spec"]["roles"]["worker"]["replicas"] = 5
    watch.told(changed)
    spec = world(cache).job.spec
    assert spec is not None
    assert spec.replicas("worker") == 5


def test_a_job_marked_for_deletion_says_so_though_its_generation_is_the_same(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10))
    watch.told(deleting(job_manifest(), 11))
    assert world(cache).job.deleting


def test_an_invalid_spec_is_a_job_with_errors(cache: Cache, watch: FakeIndexes) -> None:
    broken = job_manifest()
    broken["spec"] = {"strategy": "Guess"}
    watch.told(broken)
    assert world(cache).job.spec is None
    assert world(cache).job.errors


# --- our own writes, before the watch tells of them ---


def test_a_created_pod_is_seen_before_the_watch_tells(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.answered(POD, pod(0, 20))
    assert pods(cache) == ["pod-0"]


def test_a_written_status_is_seen_before_the_watch_tells(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10))
    cache.answered(JOB, job_manifest(15, status={"restarts": 1}))
    assert (world(cache).job.status.restarts, world(cache).resource_version) == (1, "15")


def test_an_older_event_does_not_hide_a_newer_answer(cache: Cache, watch: FakeIndexes) -> None:
    cache.answered(JOB, job_manifest(15, status={"restarts": 1}))
    watch.told(job_manifest(12))
    assert world(cache).job.status.restarts == 1


def test_a_newer_event_replaces_an_answer(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.answered(POD, pod(0, 20))
    watch.told(deleting(pod(0), 25))
    assert [each.deleting for each in world(cache).observed.pods] == [True]


def test_an_older_answer_that_comes_late_replaces_nothing(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.answered(POD, deleting(pod(0), 25))
    cache.answered(POD, pod(0, 20))
    assert [each.deleting for each in world(cache).observed.pods] == [True]


def test_an_object_told_of_twice_is_there_once(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0, 20))
    cache.answered(POD, pod(0, 20))
    assert pods(cache) == ["pod-0"]


def test_a_terminating_pod_that_we_deleted_is_still_there(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0, 20))
    cache.answered(POD, deleting(pod(0), 25))
    assert [each.deleting for each in world(cache).observed.pods] == [True]


# --- what is gone ---


def test_a_deleted_pod_is_gone_though_the_index_still_has_it(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0))
    cache.gone(POD, KEY, "pod-0")
    assert pods(cache) == []


def test_the_answer_to_a_create_that_comes_after_the_pods_end_does_not_bring_it_back(
    cache: Cache, watch: FakeIndexes
) -> None:
    watch.told(job_manifest())
    cache.gone(POD, KEY, "pod-0", version=30)
    cache.answered(POD, pod(0, 20))
    assert pods(cache) == []


def test_a_pod_of_the_same_name_and_another_uid_is_another_pod(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0, 20, uid="first"))
    cache.gone(POD, KEY, "first")
    cache.answered(POD, pod(0, 40, uid="second"))
    assert pods(cache) == ["second"]


def test_an_object_whose_label_was_taken_away_and_given_back_is_there_again(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.gone(POD, KEY, "pod-0", version=30)  # what a watch with a selector says when the label goes
    watch.told(pod(0, 31))
    assert pods(cache) == ["pod-0"]


def test_a_job_that_is_gone_is_not_brought_back_by_the_answer_to_a_status_write(
    cache: Cache, watch: FakeIndexes
) -> None:
    cache.gone(JOB, KEY, JOB_UID, version=30)
    cache.answered(JOB, job_manifest(20))
    assert cache.observed(KEY) is None


def test_the_dead_are_forgotten_in_the_end(cache: Cache, watch: FakeIndexes, timers: FakeTimers) -> None:
    cache.gone(POD, KEY, "pod-0")
    timers.advance(TOMBSTONE_SECONDS + 1)
    cache.gone(POD, KEY, "another")  # any later death cleans up
    cache.answered(POD, pod(0))
    watch.told(job_manifest())
    assert pods(cache) == ["pod-0"]


def test_the_dead_are_remembered_for_as_long_as_the_index_has_them(
    cache: Cache, watch: FakeIndexes, timers: FakeTimers
) -> None:
    watch.told(job_manifest(), pod(0))
    cache.gone(POD, KEY, "pod-0")
    timers.advance(TOMBSTONE_SECONDS + 1)
    cache.gone(POD, KEY, "another")
    assert pods(cache) == []


# --- a listing that was repeated because the watch was broken ---


def listing(*uids: str, version: int = 100, namespace: str = "") -> Listing:
    return Listing(StreamKey("pods", namespace), frozenset(uids), version)


def test_what_a_repeated_listing_does_not_mention_is_gone(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0), pod(1))
    assert cache.relisted(listing("pod-1"), POD) == {KEY}
    assert pods(cache) == ["pod-1"]


def test_what_was_created_after_the_listing_is_not_gone(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.answered(POD, pod(0, 101))
    cache.relisted(listing(version=100), POD)
    assert pods(cache) == ["pod-0"]


def test_an_answered_pod_that_the_watch_never_told_of_is_gone_if_the_listing_lacks_it(
    cache: Cache, watch: FakeIndexes
) -> None:
    watch.told(job_manifest())
    cache.answered(POD, pod(0, 99))
    cache.relisted(listing(version=100), POD)
    assert pods(cache) == []


def test_a_listing_of_one_namespace_says_nothing_of_another(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), pod(0))
    cache.relisted(listing(namespace="other"), POD)
    assert pods(cache) == ["pod-0"]


def test_a_listing_of_pods_says_nothing_of_services(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(), owned(SERVICE, KEY.name, 5, "s"))
    cache.relisted(listing(), POD)
    assert len(world(cache).observed.children) == 1


# --- what stands in the way ---


def test_a_refusal_is_seen_until_the_object_is_made(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest())
    cache.refused(KEY, JOB_UID, POD, "recsys-worker-0", "exceeded quota")
    assert world(cache).observed.refused == {(POD, "recsys-worker-0"): "exceeded quota"}
    cache.free(KEY, POD, "recsys-worker-0")
    assert world(cache).observed.refused == {}


def test_the_age_of_a_refusal_is_known(cache: Cache, timers: FakeTimers) -> None:
    cache.refused(KEY, JOB_UID, POD, "recsys-worker-0", "exceeded quota")
    timers.advance(4)
    assert cache.refusals(KEY) == {(POD, "recsys-worker-0"): 4}


def test_a_new_job_of_the_same_name_does_not_inherit_obstacles(cache: Cache, watch: FakeIndexes) -> None:
    cache.refused(KEY, "old-job", POD, "recsys-worker-0", "exceeded quota")
    cache.in_the_way(KEY, "old-job", POD, "recsys-worker-0")
    watch.told(job_manifest())
    assert (world(cache).observed.refused, world(cache).observed.foreign) == ({}, frozenset())


def test_a_foreign_object_is_doubted_after_a_while_but_still_counts(
    cache: Cache, watch: FakeIndexes, timers: FakeTimers
) -> None:
    watch.told(job_manifest())
    cache.in_the_way(KEY, JOB_UID, SERVICE, "recsys")
    assert cache.doubtful(KEY) == []
    timers.advance(FOREIGN_SECONDS)
    assert cache.doubtful(KEY) == [(SERVICE, "recsys")]
    assert world(cache).observed.foreign == {(SERVICE, "recsys")}


def test_obstacles_of_a_job_that_is_gone_are_forgotten(cache: Cache, watch: FakeIndexes) -> None:
    cache.refused(KEY, JOB_UID, POD, "recsys-worker-0", "exceeded quota")
    assert cache.observed(KEY) is None
    assert cache.refusals(KEY) == {}


# --- all jobs ---


def test_the_jobs_are_all_that_the_watch_told_of_and_that_are_not_gone(cache: Cache, watch: FakeIndexes) -> None:
    watch.told(job_manifest(10, uid="a"), job_manifest(11, uid="b"))
    cache.gone(JOB, KEY, "a")
    assert [job.uid for job in cache.jobs()] == ["b"]
