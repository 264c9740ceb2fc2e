"""Asking an agent, whatever answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from disttrain.local import probe
from disttrain.local.probe import fetch_status


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_an_agents_json_is_returned() -> None:
    async with answering(http(json.dumps({"version": 1}).encode())) as address:
        assert await fetch_status(address) == {"version": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not HTTP at all",
        http(b"{}", "404 Not Found"),
        http(b"not JSON"),
        http(b"[1]"),
        http(b"\xff\xfe"),
        http(b"[" * 2000),
        http(b" " * (probe.MAX_BYTES + 1)),
    ],
    ids=["nothing", "no HTTP", "404", "no JSON", "no object", "no UTF-8", "deep", "long"],
)
async def test_anything_else_is_as_if_nobody_had_answered(answer: bytes) -> None:
    async with answering(answer) as address:
        assert await fetch_status(address) is None


async def test_nobody_there_is_no_error() -> None:
    async with answering(b"") as address:
        pass
    assert await fetch_status(address) is None


async def test_an_agent_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "TIMEOUT_SECONDS", 0.05)
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(30), "127.0.0.1", 0)
    async with silent:
        host, port = silent.sockets[0].getsockname()
        assert await fetch_status(f"{host}:{port}") is None
