"""Creating objects: what is remembered of a refusal, and whose an object is that has the name already."""

from __future__ import annotations

import asyncio
import math

import pytest

from disttrain import names
from disttrain.controller.api_errors import AlreadyExists, Refused, Unavailable
from disttrain.controller.cache import FOREIGN_SECONDS
from disttrain.controller.keys import POD
from disttrain.controller.reconcile import UNEXPLAINED_RETRY_SECONDS
from disttrain.core.model import Plan
from tests.unit.controller.fakes import JOB_UID, KEY, job_manifest, pod
from tests.unit.controller.stage import FULL, Stage, fails, name_of, worker


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.watch.told(job_manifest(10))
    return stage


async def test_a_created_pod_is_known_at_the_next_look(stage: Stage) -> None:
    await stage.look(Plan(creates=(pod(0),)))
    await stage.look(Plan())
    assert [each.name for each in stage.seen[1][1].pods] == [worker(0)]
    assert stage.count("disttrain_pods_created_total") == 1


async def test_pods_are_not_made_when_the_service_was_refused(stage: Stage) -> None:
    stage.api.errors["create", "recsys"] = fails(Refused, code=403)
    await stage.look(FULL)
    assert stage.api.named("create") == ["recsys", "Created"]


async def test_a_refusal_is_told_to_the_core_in_the_servers_words_at_once(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(Refused, code=403, message="exceeded quota: pods=5")
    assert await stage.look(Plan(creates=(pod(0),))) == 0.0
    await stage.look(Plan())
    assert stage.seen[1][1].refused == {(POD, worker(0)): "exceeded quota: pods=5"}


async def test_a_refused_create_is_not_tried_again_too_soon(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(Refused, code=403)
    plan = Plan(creates=(pod(0),))
    await stage.look(plan)
    stage.timers.advance(4)
    assert await stage.look(plan) == names.RETRY_SECONDS - 4
    assert len(stage.api.calls) == 1


async def test_after_a_refusal_one_create_asks_for_all(stage: Stage) -> None:
    creates = tuple(pod(index) for index in range(40))
    for index in range(40):
        stage.api.errors["create", worker(index)] = fails(Refused, code=403)
    await stage.look(Plan(creates=creates))
    tried = len(stage.api.calls)
    assert tried < 40, "it stops at the first refusals"
    stage.timers.advance(names.RETRY_SECONDS)
    await stage.look(Plan(creates=creates))
    assert len(stage.api.calls) == tried + 1


async def test_a_refused_role_does_not_keep_the_others_from_being_made(stage: Stage) -> None:
    creates = tuple(pod(index) for index in range(40))
    stage.api.errors["create", worker(0)] = fails(Refused, code=403)
    for _ in range(3):
        await stage.look(Plan(creates=tuple(each for each in creates if not stage.cache.explains(*name_of(each)))))
        stage.timers.advance(names.RETRY_SECONDS)
    assert {worker(index) for index in range(40)} == set(stage.api.named("create"))


async def test_when_a_refusal_ends_all_the_rest_is_made(stage: Stage) -> None:
    plan = Plan(creates=tuple(pod(index) for index in range(3)))
    stage.api.errors["create", worker(0)] = fails(Refused, code=403)
    await stage.look(plan)
    del stage.api.errors["create", worker(0)]
    stage.timers.advance(names.RETRY_SECONDS)
    await stage.look(plan)
    assert {worker(0), worker(1), worker(2)} <= set(stage.api.named("create"))
    await stage.look(Plan())
    assert stage.seen[-1][1].refused == {}


async def test_a_taken_name_that_the_watch_explains_by_now_needs_no_request(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(AlreadyExists)
    stage.plans = [Plan(creates=(pod(0),))]
    looking = asyncio.create_task(stage.reconciler.reconcile(KEY))
    await asyncio.sleep(0)
    stage.watch.told(pod(0, 50))
    assert await looking == math.inf
    assert stage.api.named("find") == []


async def test_a_create_whose_answer_was_lost_is_found_again_as_ours(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(AlreadyExists)
    stage.api.found[worker(0)] = pod(0, 50)
    assert await stage.look(Plan(creates=(pod(0),))) == 0.0
    await stage.look(Plan())
    assert [each.owner_uid for each in stage.seen[1][1].pods] == [JOB_UID]
    assert stage.seen[1][1].foreign == frozenset()


async def test_a_predecessors_pod_is_shown_with_its_owner(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(AlreadyExists)
    stage.api.found[worker(0)] = pod(0, 50, uid="old-pod", owner="old-job")
    await stage.look(Plan(creates=(pod(0),)))
    await stage.look(Plan())
    assert [each.owner_uid for each in stage.seen[1][1].pods] == ["old-job"]


async def test_somebody_elses_object_is_foreign(stage: Stage) -> None:
    stranger = {"kind": POD, "metadata": {"name": worker(0), "namespace": "ml", "uid": "x", "resourceVersion": "3"}}
    stage.api.errors["create", worker(0)] = fails(AlreadyExists)
    stage.api.found[worker(0)] = stranger
    assert await stage.look(Plan(creates=(pod(0),))) == 0.0
    await stage.look(Plan())
    assert stage.seen[1][1].foreign == {(POD, worker(0))}


async def test_a_name_that_is_free_again_is_tried_soon(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(AlreadyExists)
    assert await stage.look(Plan(creates=(pod(0),))) == UNEXPLAINED_RETRY_SECONDS


async def test_a_foreign_object_is_asked_for_again_after_a_while(stage: Stage) -> None:
    stage.cache.in_the_way(KEY, JOB_UID, POD, worker(0))
    stage.api.found[worker(0)] = pod(0, 50)
    await stage.look(Plan())
    assert stage.api.calls == []
    stage.timers.advance(FOREIGN_SECONDS)
    await stage.look(Plan())
    await stage.look(Plan())
    assert stage.api.calls == [("find", worker(0))]
    assert stage.seen[-1][1].foreign == {(POD, worker(0))}


async def test_when_the_foreign_object_is_gone_the_core_is_asked_anew(stage: Stage) -> None:
    stage.cache.in_the_way(KEY, JOB_UID, POD, worker(0))
    stage.timers.advance(FOREIGN_SECONDS)
    assert await stage.look(Plan()) == 0.0
    await stage.look(Plan())
    assert stage.seen[-1][1].foreign == frozenset()


async def test_many_pods_are_made_side_by_side_but_not_all_at_once(stage: Stage) -> None:
    at_once = 0
    most = 0

    async def create(manifest: dict[str, object]) -> dict[str, object]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return manifest

    stage.api.create = create  # type: ignore[method-assign]
    await stage.look(Plan(creates=tuple(pod(index) for index in range(100))))
    assert most == 16


async def test_what_has_begun_is_finished_when_another_create_fails(stage: Stage) -> None:
    stage.api.errors["create", worker(0)] = fails(Unavailable, code=0)
    with pytest.raises(Unavailable):
        await stage.look(Plan(creates=tuple(pod(index) for index in range(5))))
    assert stage.count("disttrain_pods_created_total") == 4


async def test_a_stopping_operator_begins_no_more_writes(stage: Stage) -> None:
    stage.plans = [Plan(creates=tuple(pod(index) for index in range(100)))]
    looking = asyncio.create_task(stage.reconciler.reconcile(KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stage.reconciler.stop()
    await looking
    assert len(stage.api.calls) < 40
