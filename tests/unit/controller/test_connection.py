"""Where credentials come from, and one clear sentence when they cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from disttrain.controller.connection import Access, ConfigError, connect, find_access
from tests.unit.controller.fake_apiserver import FakeApiServer

Write = Callable[[bytes], Path]

GOOD = """
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1/"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: lost, context: {cluster: nowhere, user: u}}]
current-context: one
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a pod nor with a kubeconfig of the person who runs the tests."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a kubeconfig and gives its path."""

    def write(content: bytes) -> Path:
        path = tmp_path / "kubeconfig"
        path.write_bytes(content)
        return path

    return write


def test_an_explicit_file_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert find_access("/given", "ctx", in_cluster=False) == Access(Path("/given"), "ctx")


def test_then_the_environments_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert find_access(None, None, in_cluster=False).kubeconfig == Path("/from/environment")


def test_then_the_pods_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert find_access(None, None, in_cluster=False) == Access()


def test_then_the_file_at_home() -> None:
    assert find_access(None, None, in_cluster=False).kubeconfig == Path("~/.kube/config").expanduser()


def test_in_cluster_asks_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    assert find_access("/given", None, in_cluster=True) == Access()


async def test_a_good_kubeconfig_names_the_server(write: Write) -> None:
    connection = await connect(Access(write(GOOD.encode())))
    assert connection.host == "https://127.0.0.1:1"
    await connection.close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not YAML"),
        ("[]", "names no clusters"),
        ("hello", "names no clusters"),
        ("", "names no clusters"),
        ("clusters: [1]\ncontexts: []\ncurrent-context: x", "kubeconfig"),
        (GOOD.replace("current-context: one", ""), "current-context"),
        (GOOD.replace("current-context: one", "current-context: two"), "two"),
        (GOOD.replace("current-context: one", "current-context: lost"), "nowhere"),
        (GOOD.replace("{token: t}", "{client-certificate: missing.crt, client-key: missing.key}"), "missing.crt"),
    ],
)
async def test_a_file_that_cannot_be_used_is_said_in_one_line(write: Write, content: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await connect(Access(write(content.encode())))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_bytes_that_are_no_text_are_said_to_be_none(write: Write) -> None:
    with pytest.raises(ConfigError, match="kubeconfig"):
        await connect(Access(write(b"\xff\xfe\x00clusters")))


async def test_a_file_that_is_not_there_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; give --kubeconfig FILE or set KUBECONFIG"):
        await connect(Access(tmp_path / "nowhere"))


async def test_a_kubeconfig_that_was_taken_away_is_not_needed_until_the_token_expires(
    server: FakeApiServer, kubeconfig: Callable[[], Path]
) -> None:
    path = kubeconfig()
    connection = await connect(Access(path))
    path.unlink()
    server.token = "another"
    session = connection.open_session()
    async with session.get(f"{server.url}/api") as response:
        assert response.status == 401
    await session.close()
    await connection.close()


async def test_no_pod_no_service_account() -> None:
    with pytest.raises(ConfigError, match="not running in a pod"):
        await connect(Access())
