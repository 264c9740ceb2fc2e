"""Ask an agent on this machine how its training process does: `GET /v1/status` over loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

STATUS_PATH: Final = "/v1/status"
TIMEOUT_SECONDS: Final = 2.0
MAX_BYTES: Final = 65_536


async def fetch_status(address: str) -> Mapping[str, Any] | None:
    """The agent's JSON, or None while there is no agent or no sound answer there. `address` is `host:port`.

    Progress is for display only (the process' exit decides everything), so a failed request is no error.
    """
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            body = await _get(address)
        data = json.loads(body)
    except (OSError, TimeoutError, ValueError, RecursionError):  # RecursionError: thousands of opening brackets
        return None
    return data if isinstance(data, dict) else None


async def _get(address: str) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        request = f"GET {STATUS_PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        answer = bytearray()
        while chunk := await reader.read(MAX_BYTES):
            answer += chunk
            if len(answer) > MAX_BYTES:
                raise ValueError("the answer is too long")
    finally:
        writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise ValueError("not a 200 answer")
    return body
