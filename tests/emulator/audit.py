"""What was asked of the API server, and by whom: its audit log, which is written before a request is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPERATOR = "system:serviceaccount:disttrain-system:disttrain-operator"
READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True)
class Request:
    """One answered request; a watch counts when it is answered first, since its end may come much later."""

    user: str
    verb: str
    resource: str
    """Plural, with the subresource: `disttrainjobs/status`."""
    namespace: str
    name: str
    code: int
    denied: bool
    """The authorizer said no. A quota's or an admission policy's refusal is a 403 too, but not this."""
    time: str
    """RFC 3339, when it was received."""

    @property
    def is_read(self) -> bool:
        return self.verb in READS


class AuditLog:
    """The log from a moment on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size

    def requests(self, user: str = OPERATOR, namespace: str | None = None) -> list[Request]:
        """Requests of one user since this object was made; without a namespace also those to no namespace."""
        return [
            request
            for request in self._read(user)
            if request.user == user and (namespace is None or request.namespace == namespace)
        ]

    def _read(self, user: str) -> Iterator[Request]:
        needle = user.encode()
        with self._path.open("rb") as file:
            file.seek(self._from)
            for line in file:
                # Most of a log is other users'; a last line without its end is still being written.
                if needle in line and line.endswith(b"\n"):
                    request = _parse(json.loads(line))
                    if request is not None:
                        yield request


def _parse(entry: dict[str, Any]) -> Request | None:
    """The request of a log entry, or None for a stage of it that does not count."""
    verb, target = entry["verb"], entry.get("objectRef", {})
    if entry["stage"] != ("ResponseStarted" if verb == "watch" else "ResponseComplete"):
        return None
    resource = target.get("resource", entry["requestURI"])
    return Request(
        user=entry.get("impersonatedUser", entry["user"])["username"],
        verb=verb,
        resource="/".join(part for part in (resource, target.get("subresource", "")) if part),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        denied=entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
        time=entry["requestReceivedTimestamp"],
    )
