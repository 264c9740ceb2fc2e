"""What is seen of kopf's requests: signs of life, and what a repeated listing no longer mentions. Over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from disttrain.controller.connection import Connection
from disttrain.controller.streams import Listing, StreamKey, Streams, stream_key
from tests.unit.controller.fake_apiserver import Answer, FakeApiServer
from tests.unit.controller.fakes import FakeTimers, pod

PODS = StreamKey("pods", "")


class Ear:
    """A session with streams in it, as kopf has one."""

    def __init__(self, connection: Connection, server: FakeApiServer) -> None:
        self.timers = FakeTimers()
        self.relisted: list[Listing] = []
        self.streams = Streams([PODS], time=self.timers.time, on_relist=self.relisted.append)
        self.session = connection.open_session(self.streams)
        self._url = server.url

    async def list(self, query: str = "") -> dict[str, object]:
        async with self.session.get(f"{self._url}/api/v1/pods{query}") as response:
            body: dict[str, object] = await response.json()
            return body

    async def watch(self) -> aiohttp.ClientResponse:
        return await self.session.get(f"{self._url}/api/v1/pods?watch=true")


@pytest.fixture
async def ear(connection: Connection, server: FakeApiServer) -> AsyncIterator[Ear]:
    ear = Ear(connection, server)
    yield ear
    await ear.session.close()


@pytest.mark.parametrize(
    ("path", "plural", "namespace"),
    [
        ("/api/v1/pods", "pods", ""),
        ("/api/v1/namespaces/ml/pods", "pods", "ml"),
        ("/apis/disttrain.dev/v1alpha1/disttrainjobs", "disttrainjobs", ""),
        ("/apis/networking.k8s.io/v1/namespaces/ml/networkpolicies", "networkpolicies", "ml"),
        ("/api/v1/namespaces", "namespaces", ""),
    ],
)
def test_a_url_says_which_watch_it_belongs_to(path: str, plural: str, namespace: str) -> None:
    assert stream_key(URL(f"https://host:6443{path}?watch=true")) == (plural, namespace)


async def test_a_resource_is_listed_when_its_watch_begins(ear: Ear) -> None:
    ear.timers.advance(5)
    await ear.list()
    assert ear.streams.unlisted_for() == {PODS: 5.0}
    (await ear.watch()).close()
    assert ear.streams.unlisted_for() == {}


async def test_an_event_or_a_bookmark_is_a_sign_of_life(ear: Ear, server: FakeApiServer) -> None:
    response = await ear.watch()
    ear.timers.advance(50)
    assert ear.streams.silences() == {PODS: 50.0}
    server.bookmark()
    async for _ in response.content.iter_chunked(1024):
        break
    assert ear.streams.silences() == {PODS: 0.0}
    response.close()


async def test_an_answer_that_is_no_success_is_no_sign_of_life(ear: Ear, server: FakeApiServer) -> None:
    ear.timers.advance(50)
    server.answer_wrongly("GET", "pods", Answer(403, {}))
    await ear.list()
    assert ear.streams.silences() == {PODS: 50.0}


async def test_other_requests_are_left_alone(ear: Ear, server: FakeApiServer) -> None:
    async with ear.session.get(f"{server.url}/api") as response:
        assert response.status == 200
    assert set(ear.streams.silences()) == {PODS}


async def test_the_first_listing_misses_nothing(ear: Ear, server: FakeApiServer) -> None:
    server.put(pod(0))
    await ear.list()
    assert ear.relisted == []


async def test_a_repeated_listing_tells_what_is_there_and_can_still_be_read(ear: Ear, server: FakeApiServer) -> None:
    (await ear.watch()).close()
    server.put(pod(0))
    body = await ear.list()
    assert ear.relisted == [Listing(PODS, frozenset({"pod-0"}), server.version)]
    assert len(body["items"]) == 1  # type: ignore[arg-type]


async def test_a_repeated_listing_is_complete_only_with_its_last_page(ear: Ear, server: FakeApiServer) -> None:
    (await ear.watch()).close()
    pages = [_page("a", "token"), _page("b", "token"), _page("c", "")]
    server.answer_wrongly("GET", "pods", *pages)
    await ear.list()
    await ear.list("?continue=token")
    assert ear.relisted == []
    await ear.list("?continue=token")
    assert ear.relisted == [Listing(PODS, frozenset({"a", "b", "c"}), 7)]


async def test_a_listing_that_broke_off_does_not_count_for_the_next(ear: Ear, server: FakeApiServer) -> None:
    (await ear.watch()).close()
    server.answer_wrongly("GET", "pods", _page("a", "token"), _page("b", ""))
    await ear.list()
    await ear.list()
    assert ear.relisted == [Listing(PODS, frozenset({"b"}), 7)]


def _page(uid: str, token: str) -> Answer:
    return Answer(200, {"items": [{"metadata": {"uid": uid}}], "metadata": {"resourceVersion": "7", "continue": token}})
