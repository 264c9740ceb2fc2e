"""Asking another agent for its status: one bounded HTTP request, and errors that say what is wrong with the peer."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import Executor
from typing import Any, Dict, Final, List, Optional, Tuple

STATUS_PATH: Final = "/v1/status"
TIMEOUT_SECONDS: Final = 5.0  # of one request with its name lookup; a resolver tries for 5 s before its next server
MAX_ANSWER_BYTES: Final = 65_536

Address = Tuple[str, int]


class PeerError(Exception):
    """Why a peer does not answer, in words that follow its name: "worker-1: refuses connections"."""


class UnresolvableError(PeerError):
    """No address for the name: its pod does not exist yet, or DNS is down."""


class RefusedError(PeerError):
    """The host is there and says that nobody listens on the port."""


class SilentError(PeerError):
    """No answer in time, or no way to the host."""


class BusyError(PeerError):
    """Somebody is there and closed the connection: an agent does when it has too many. A dead one refuses next time."""


class UnintelligibleError(PeerError):
    """Something answers that is no agent."""


async def get_status(address: str, resolver: Optional[Executor] = None) -> Dict[str, Any]:
    """The status document of the agent at `address` (`host:port`). Raises PeerError.

    `resolver` runs the name lookup, which blocks a thread; None: the loop's default.
    """
    try:
        return await asyncio.wait_for(_get_status(address, resolver), TIMEOUT_SECONDS)
    except asyncio.TimeoutError:
        raise SilentError(f"does not answer within {TIMEOUT_SECONDS:.0f} s") from None


async def accepts(address: str, resolver: Optional[Executor] = None) -> bool:
    """Whether anybody accepts connections at `address`."""
    try:
        _, writer = await asyncio.wait_for(_connect(address, resolver), TIMEOUT_SECONDS)
    except (PeerError, asyncio.TimeoutError):
        return False
    writer.close()
    return True


async def _get_status(address: str, resolver: Optional[Executor]) -> Dict[str, Any]:
    reader, writer = await _connect(address, resolver)
    try:
        writer.write(f"GET {STATUS_PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        answer = await _read_all(reader)
    except OSError as error:
        raise BusyError(f"closed the connection ({error.strerror})") from error
    finally:
        writer.close()
    if not answer:
        raise BusyError("closed the connection")
    return _parse(answer)


async def _connect(address: str, resolver: Optional[Executor]) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    failure: PeerError = UnresolvableError("its name does not resolve")
    for numeric in await _resolve(host.strip("[]"), int(port), resolver):
        try:
            return await asyncio.open_connection(*numeric)
        except ConnectionRefusedError:
            failure = RefusedError(f"refuses connections to port {port}")
        except OSError as error:
            failure = SilentError(f"cannot be reached ({error.strerror})")
    raise failure


async def _resolve(host: str, port: int, resolver: Optional[Executor]) -> List[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(resolver, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except socket.gaierror as error:
        raise UnresolvableError(f"its name does not resolve ({error.strerror})") from error
    except UnicodeError as error:  # the idna codec refuses labels over 63 characters
        raise UnresolvableError("its name is no valid host name") from error
    return [(str(info[4][0]), int(info[4][1])) for info in found]


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    answer = bytearray()
    while len(answer) <= MAX_ANSWER_BYTES:
        part = await reader.read(MAX_ANSWER_BYTES)
        if not part:
            break
        answer += part
    return bytes(answer)


def _parse(answer: bytes) -> Dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(answer) > MAX_ANSWER_BYTES or len(status) < 2 or not status[0].startswith(b"HTTP/1."):
        raise UnintelligibleError("answers, but not as an agent does")
    if status[1] == b"503":
        raise BusyError("is busy")
    try:
        document = json.loads(body) if status[1] == b"200" else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UnintelligibleError("answers, but not as an agent does")
    return document
