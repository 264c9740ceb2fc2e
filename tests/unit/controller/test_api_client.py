"""What the API client sends, and which error becomes of which answer. Against a fake API server over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import override

from disttrain import names
from disttrain.controller.api_client import MAX_THROTTLED_TRIES, REQUESTS_AT_ONCE, ApiClient
from disttrain.controller.api_errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    Refused,
    Target,
    Throttled,
    Unauthorized,
    Unavailable,
)
from disttrain.controller.connection import USER_AGENT, Connection
from disttrain.controller.keys import JOB, POD, RESOURCES, SERVICE
from disttrain.controller.rate_limit import RateLimiter
from disttrain.core.model import Delete
from tests.unit.controller.fake_apiserver import Answer, FakeApiServer
from tests.unit.controller.fakes import KEY, job_manifest, owned, pod


class Observed:
    """The requests that the client reported, and the pauses that its limiter made."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, int]] = []
        self.slept: list[float] = []
        self.now = 0.0

    def observe(self, target: Target, code: int, seconds: float) -> None:
        self.requests.append((target.verb, target.resource.plural, code))

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def api(connection: Connection, observed: Observed) -> ApiClient:
    limiter = RateLimiter(1000, 1000, time=observed.time, sleep=observed.sleep)
    return ApiClient(connection, limiter, observed.observe)


def failure(code: int, reason: str, message: str = "no", **details: object) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Answer(code, body)


# --- what is sent ---


async def test_a_create_is_a_post_of_the_manifest_as_it_is(api: ApiClient, server: FakeApiServer) -> None:
    manifest = pod(0)
    stored = await api.create(manifest)
    (asked,) = server.requests("POST", "pods")
    assert (asked.path, asked.body) == ("/api/v1/namespaces/ml/pods", manifest)
    assert stored["metadata"]["resourceVersion"] == "101"


async def test_every_request_carries_the_token_and_our_name(api: ApiClient, server: FakeApiServer) -> None:
    await api.create(pod(0))
    assert server.asked[0].headers["Authorization"] == "Bearer secret-token"
    assert server.asked[0].headers["User-Agent"] == USER_AGENT


async def test_a_delete_has_the_uid_for_a_precondition_and_deletes_in_the_background(
    api: ApiClient, server: FakeApiServer
) -> None:
    server.put(pod(0))
    await api.delete(Delete("Pod", "recsys-worker-0", "pod-0"), "ml")
    (asked,) = server.requests("DELETE", "pods")
    assert asked.path == "/api/v1/namespaces/ml/pods/recsys-worker-0"
    assert asked.body["preconditions"] == {"uid": "pod-0"}
    assert asked.body["propagationPolicy"] == "Background"


async def test_a_namesake_is_never_deleted(api: ApiClient, server: FakeApiServer) -> None:
    server.put(pod(0, uid="another"))
    with pytest.raises(Conflict):
        await api.delete(Delete("Pod", "recsys-worker-0", "pod-0"), "ml")
    assert len(server.objects) == 1


async def test_a_status_is_one_server_side_apply_of_the_whole_status(api: ApiClient, server: FakeApiServer) -> None:
    job = server.put(job_manifest())
    identity = {part: job["metadata"][part] for part in ("name", "namespace", "uid", "resourceVersion")}
    stored = await api.apply_status(identity, {"phase": "Running"})
    (asked,) = server.requests("PATCH", "disttrainjobs")
    assert asked.path == "/apis/disttrain.dev/v1alpha1/namespaces/ml/disttrainjobs/recsys/status"
    assert asked.query == {"fieldManager": names.FIELD_MANAGER, "force": "true"}
    assert asked.headers["Content-Type"] == "application/apply-patch+yaml"
    assert asked.body == {
        "apiVersion": names.API_VERSION,
        "kind": JOB,
        "metadata": identity,
        "status": {"phase": "Running"},
    }
    assert stored["status"] == {"phase": "Running"}


async def test_a_status_computed_from_an_old_version_is_a_conflict(api: ApiClient, server: FakeApiServer) -> None:
    job = server.put(job_manifest())
    identity = {part: job["metadata"][part] for part in ("name", "namespace", "uid")} | {"resourceVersion": "1"}
    with pytest.raises(Conflict, match="cannot patch DistTrainJob ml/recsys"):
        await api.apply_status(identity, {})


async def test_who_has_a_name_is_found_by_one_list(api: ApiClient, server: FakeApiServer) -> None:
    server.put(owned(SERVICE, KEY.name, 1, "s"))
    server.put(owned(SERVICE, "other", 1, "o"))
    found = await api.find(SERVICE, "ml", KEY.name)
    assert found is not None
    assert (found["kind"], found["apiVersion"], found["metadata"]["uid"]) == (SERVICE, "v1", "s")
    assert [asked.query["fieldSelector"] for asked in server.requests("GET", "services")] == ["metadata.name=recsys"]


async def test_a_name_that_nobody_has_is_found_to_be_free(api: ApiClient) -> None:
    assert await api.find(SERVICE, "ml", KEY.name) is None


# --- what is answered ---


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", Refused),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Refused),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (422, "Invalid", Refused),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
async def test_each_answer_is_an_error_by_what_is_to_be_done(
    api: ApiClient, server: FakeApiServer, code: int, reason: str, error: type[ApiError]
) -> None:
    server.answer_wrongly("POST", "pods", failure(code, reason), failure(code, reason))
    with pytest.raises(ApiError) as caught:
        await api.create(pod(0))
    assert type(caught.value) is error
    assert (caught.value.code, caught.value.reason) == (code, reason)


async def test_an_error_names_the_object_the_verb_and_the_servers_words(api: ApiClient, server: FakeApiServer) -> None:
    server.answer_wrongly("POST", "pods", failure(403, "Forbidden", 'exceeded quota: "small"'))
    with pytest.raises(Refused, match='cannot create Pod ml/recsys-worker-0: exceeded quota: "small"'):
        await api.create(pod(0))


async def test_an_answer_that_is_not_json_is_an_error_with_its_beginning(api: ApiClient, server: FakeApiServer) -> None:
    server.answer_wrongly("POST", "pods", Answer(502, {}))
    with pytest.raises(Unavailable, match="502"):
        await api.create(pod(0))


async def test_no_answer_at_all_is_unavailable(api: ApiClient, server: FakeApiServer, observed: Observed) -> None:
    await server.server.close()
    with pytest.raises(Unavailable, match="no answer"):
        await api.create(pod(0))
    assert observed.requests == [("create", "pods", 0)]


async def test_a_create_is_not_repeated_when_nobody_knows_whether_it_was_done(
    api: ApiClient, server: FakeApiServer
) -> None:
    lost = failure(504, "Timeout")
    lost.after_commit = True
    server.answer_wrongly("POST", "pods", lost)
    with pytest.raises(Unavailable):
        await api.create(pod(0))
    assert len(server.requests("POST", "pods")) == 1
    with pytest.raises(AlreadyExists):
        await api.create(pod(0))


# --- 429 ---


async def test_too_many_requests_waits_as_long_as_asked_and_tries_again(
    api: ApiClient, server: FakeApiServer, observed: Observed
) -> None:
    busy = failure(429, "TooManyRequests")
    busy.headers["Retry-After"] = "7"
    server.answer_wrongly("POST", "pods", busy)
    await api.create(pod(0))
    assert observed.slept == [7.0]
    assert [code for *_, code in observed.requests] == [429, 201]


async def test_the_wait_may_also_stand_in_the_body(api: ApiClient, server: FakeApiServer, observed: Observed) -> None:
    server.answer_wrongly("POST", "pods", failure(429, "TooManyRequests", retryAfterSeconds=3))
    await api.create(pod(0))
    assert observed.slept == [3.0]


async def test_too_many_requests_for_ever_is_an_error_in_the_end(api: ApiClient, server: FakeApiServer) -> None:
    server.answer_wrongly("POST", "pods", *[failure(429, "TooManyRequests")] * 20)
    with pytest.raises(Throttled):
        await api.create(pod(0))
    assert len(server.requests("POST", "pods")) == MAX_THROTTLED_TRIES


# --- credentials ---


async def test_a_token_that_was_renewed_in_the_kubeconfig_is_read_again_after_a_401(
    api: ApiClient, server: FakeApiServer, kubeconfig: Callable[[str], Path]
) -> None:
    server.token = "new-token"
    kubeconfig("new-token")
    await api.create(pod(0))
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer secret-token", "Bearer new-token"]


async def test_many_requests_that_meet_a_401_together_all_go_on_with_the_new_token(
    api: ApiClient, server: FakeApiServer, kubeconfig: Callable[[str], Path]
) -> None:
    server.token = "new-token"
    kubeconfig("new-token")
    await asyncio.gather(*(api.create(pod(index)) for index in range(8)))
    assert len(server.objects) == 8


async def test_credentials_that_stay_wrong_are_an_error(api: ApiClient, server: FakeApiServer) -> None:
    server.token = "another"
    with pytest.raises(Unauthorized):
        await api.create(pod(0))


# --- limits ---


async def test_requests_are_sent_side_by_side_but_never_too_many(connection: Connection) -> None:
    at_once = most = 0

    class Counting(RateLimiter):
        @override
        async def acquire(self) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            for _ in range(3):
                await asyncio.sleep(0)
            at_once -= 1

    api = ApiClient(connection, Counting(1, 1, time=float), lambda *_: None)
    await asyncio.gather(*(api.create(pod(index)) for index in range(100)))
    assert most == REQUESTS_AT_ONCE


# --- what is asked at the start ---


async def test_it_is_known_whether_the_crd_is_installed(api: ApiClient, server: FakeApiServer) -> None:
    assert await api.serves(RESOURCES[JOB])
    server.has_crd = False
    assert not await api.serves(RESOURCES[JOB])


async def test_it_is_known_what_we_may_do(api: ApiClient, server: FakeApiServer) -> None:
    server.denied = {"create pods"}
    assert not await api.may("create", RESOURCES[POD], "", "ml")
    assert await api.may("list", RESOURCES[POD], "", None)
