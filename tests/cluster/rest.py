"""Just enough of the Kubernetes API, synchronously, to start a cluster: JSON over TLS with a client certificate."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.pki import Identity

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Answer:
    """HTTP status code and body, JSON where it was JSON. Code 0: nobody answered."""

    code: int
    body: Any


class Client:
    """Asks one API server. Never raises for what the server says or for its silence: see `Answer`."""

    def __init__(self, server: str, authority: Path, identity: Identity) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(identity.certificate, identity.key)
        self._server = server
        # No proxies: the server is on loopback, whatever the environment says.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        return self._ask("POST", path, body)

    def delete(self, path: str) -> Answer:
        return self._ask("DELETE", path, None)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Answer:
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return Answer(response.status, _decode(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _decode(error.read()))
        except OSError as error:  # refused, reset, timed out: not up yet
            return Answer(0, str(error))


def _decode(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
