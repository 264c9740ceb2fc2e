"""The status server: two paths, one method, and bounds on everything a stranger can make it do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from disttrain_agent import client, status_server
from disttrain_agent.status_server import MAX_CONNECTIONS, MAX_REQUEST_BYTES, StatusServer
from tests.unit.agent.harness import PATIENCE


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    server = StatusServer(lambda: {"state": "running"})
    try:
        yield await server.start(0, loopback=True)
    finally:
        server.close()


async def answer(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


async def test_the_status_is_json() -> None:
    async with serving() as port:
        got = await answer(port, b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 20")
    assert body == b'{"state":"running"}\n'


@pytest.mark.parametrize(
    ("request_head", "code"),
    [
        (b"GET /healthz HTTP/1.1", 200),
        (b"GET /v1/status?x=1 HTTP/1.0", 200),
        (b"GET / HTTP/1.1", 404),
        (b"GET /v1/status/ HTTP/1.1", 404),
        (b"POST /v1/status HTTP/1.1", 405),
        (b"DELETE /healthz HTTP/1.1", 405),
        (b"hello", 400),
        (b"GET /healthz", 400),
        (b"GET /healthz SMTP/1.1", 400),
        (b"GET http://elsewhere/healthz HTTP/1.1", 400),
        (b"\x16\x03\x01\x02\x00", 400),
    ],
)
def test_everything_else_is_refused(request_head: bytes, code: int) -> None:
    assert StatusServer(dict).respond(request_head + b"\r\nHost: x\r\n\r\n")[0] == code


async def test_a_request_without_end_is_refused() -> None:
    async with serving() as port:
        got = await answer(port, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (MAX_REQUEST_BYTES + 1))
    assert got.startswith(b"HTTP/1.1 400 ")


async def test_a_slow_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server, "REQUEST_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hea")
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()


async def test_connections_are_bounded_and_a_peer_can_tell() -> None:
    async with serving() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        with pytest.raises(client.BusyError):
            await client.get_status(f"127.0.0.1:{port}")
        for _, writer in idle:
            writer.close()


async def test_it_answers_again_when_idle_connections_are_gone() -> None:
    async with serving() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        for reader, writer in idle:
            writer.write(b"done\r\n\r\n")
            await reader.read()
        assert await client.get_status(f"127.0.0.1:{port}") == {"state": "running"}


async def test_a_taken_port_is_an_error() -> None:
    async with serving() as port:
        with pytest.raises(OSError, match="in use"):
            await StatusServer(dict).start(port, loopback=True)


async def test_a_pods_agent_listens_on_every_address() -> None:
    server = StatusServer(dict)
    port = await server.start(0, loopback=False)
    got = await answer(port, b"GET /healthz HTTP/1.1\r\n\r\n")
    server.close()
    assert got.endswith(b"ok\n")
