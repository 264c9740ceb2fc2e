"""A fake API server, and the operator's own connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from disttrain.controller.connection import Access, Connection, connect
from tests.unit.controller.fake_apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().running() as server:
        yield server


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> Callable[[str], Path]:
    """Writes a kubeconfig with a token and gives its path."""

    def write(token: str = "secret-token") -> Path:
        path = tmp_path / "kubeconfig"
        path.write_text(server.kubeconfig(token))
        return path

    return write


@pytest.fixture
async def connection(kubeconfig: Callable[..., Path]) -> AsyncIterator[Connection]:
    connection = await connect(Access(kubeconfig()))
    yield connection
    await connection.close()
