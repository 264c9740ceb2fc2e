"""What is wrong with the cluster is said once, in one sentence with the next step, and by the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from disttrain.controller import preflight
from disttrain.controller.api_client import ApiClient
from disttrain.controller.connection import Access, Connection, connect
from disttrain.controller.preflight import NotReady
from disttrain.controller.rate_limit import RateLimiter
from tests.unit.controller.fake_apiserver import FakeApiServer


async def check(connection: Connection, *namespaces: str) -> None:
    api = ApiClient(connection, RateLimiter(1000, 1000, time=float), lambda *_: None)
    await preflight.check(api, connection, namespaces)


async def test_a_cluster_that_is_ready_is_ready(connection: Connection) -> None:
    await check(connection)


async def test_a_missing_crd_says_how_to_install_it(connection: Connection, server: FakeApiServer) -> None:
    server.has_crd = False
    with pytest.raises(
        NotReady, match=r"does not know disttrainjobs\.disttrain\.dev/v1alpha1; install the CRD"
    ) as caught:
        await check(connection)
    assert caught.value.exit_code == os.EX_UNAVAILABLE


async def test_missing_permissions_are_all_named(connection: Connection, server: FakeApiServer) -> None:
    server.denied = {"create pods", "delete pods", "patch disttrainjobs/status"}
    with pytest.raises(NotReady) as caught:
        await check(connection)
    assert str(caught.value) == (
        "permission denied: cannot patch disttrainjobs/status in all namespaces; "
        "create, delete pods in all namespaces; bind the roles of manifests/rbac.yaml"
    )
    assert caught.value.exit_code == os.EX_NOPERM


async def test_permissions_are_asked_for_each_namespace_served(connection: Connection, server: FakeApiServer) -> None:
    server.denied = {"create events"}
    with pytest.raises(NotReady, match="create events in a; create events in b"):
        await check(connection, "a", "b")


async def test_nothing_is_asked_that_the_operator_does_not_do(connection: Connection, server: FakeApiServer) -> None:
    await check(connection)
    asked = {
        (attributes["verb"], attributes["resource"], attributes["subresource"])
        for attributes in (request.body["spec"]["resourceAttributes"] for request in server.asked if request.body)
    }
    assert len(asked) == 16
    assert not {verb for verb, *_ in asked} & {"get", "update", "*"}


async def test_wrong_credentials_are_named(server: FakeApiServer, kubeconfig: Callable[..., Path]) -> None:
    server.token = "another"
    path = kubeconfig()
    connection = await connect(Access(path))
    with pytest.raises(NotReady, match=f"does not accept the credentials of kubeconfig {path}") as caught:
        await check(connection)
    assert caught.value.exit_code == os.EX_NOPERM
    await connection.close()


async def test_a_server_that_does_not_answer_is_named(connection: Connection, server: FakeApiServer) -> None:
    url = server.url
    await server.server.close()
    with pytest.raises(NotReady, match=f"{url} does not answer") as caught:
        await check(connection)
    assert caught.value.exit_code == os.EX_UNAVAILABLE
