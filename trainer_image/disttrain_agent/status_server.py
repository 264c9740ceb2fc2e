"""The agent's HTTP server: `GET /v1/status` and `GET /healthz`, bounded in every way, one short answer a connection."""

from __future__ import annotations

import asyncio
import json
import socket
from http import HTTPStatus
from typing import Callable, Final, List, Optional, Tuple

from disttrain_agent.status import Document

MAX_CONNECTIONS: Final = 64
MAX_REQUEST_BYTES: Final = 4096
REQUEST_SECONDS: Final = 5.0
BACKLOG: Final = 128

REASONS: Final = {status.value: status.phrase for status in HTTPStatus}

Answer = Tuple[int, bytes]


class StatusServer:
    """Serves what `document` returns at that moment, to anyone: it tells nothing secret and takes nothing."""

    def __init__(self, document: Callable[[], Document]) -> None:
        self._document = document
        self._servers: List[asyncio.AbstractServer] = []
        self._connections = 0

    async def start(self, port: int, loopback: bool) -> int:
        """Listen, and return the port. Raises OSError when it is taken.

        On all addresses of the pod, IPv6 too where there is IPv6; with `loopback` on 127.0.0.1 only.
        """
        first = socket.create_server(("127.0.0.1" if loopback else "0.0.0.0", port), backlog=BACKLOG)  # noqa: S104
        chosen = int(first.getsockname()[1])
        sockets = [first]
        if not loopback:
            second = _ipv6(chosen)
            sockets += [second] if second else []
        for listening in sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=listening, limit=MAX_REQUEST_BYTES))
        return chosen

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= MAX_CONNECTIONS:
            writer.write(_http((503, b"busy\n")))  # at best: unread, the request turns this into a reset
            writer.close()
            return
        self._connections += 1
        try:
            answer = await asyncio.wait_for(self._answer(reader), REQUEST_SECONDS)
            writer.write(_http(answer))
            await asyncio.wait_for(writer.drain(), REQUEST_SECONDS)
        except (asyncio.TimeoutError, OSError):
            writer.transport.abort()  # too slow, or gone: nobody is left to tell
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            return 400, b"not an HTTP request of at most %d bytes\n" % MAX_REQUEST_BYTES
        return self.respond(head)

    def respond(self, head: bytes) -> Answer:
        """Status code and body for a request's head (request line and header fields)."""
        line = head.split(b"\r\n", 1)[0].split(b" ")
        if len(line) != 3 or not line[2].startswith(b"HTTP/1.") or not line[1].startswith(b"/"):
            return 400, b"not an HTTP/1.1 request\n"
        path = line[1].split(b"?", 1)[0]
        if path not in (b"/v1/status", b"/healthz"):
            return 404, b"only /v1/status and /healthz are here\n"
        if line[0] != b"GET":
            return 405, b"only GET\n"
        if path == b"/healthz":
            return 200, b"ok\n"
        return 200, json.dumps(self._document(), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _http(answer: Answer) -> bytes:
    code, body = answer
    kind = "application/json" if body.startswith(b"{") else "text/plain"
    allow = "Allow: GET\r\n" if code == 405 else ""
    return (
        f"HTTP/1.1 {code} {REASONS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{allow}"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _ipv6(port: int) -> Optional[socket.socket]:
    """A second socket for pods with IPv6 addresses; None where the system has no IPv6."""
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, backlog=BACKLOG)
    except OSError:
        return None
