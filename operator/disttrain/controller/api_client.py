"""The one module that writes to the API server.

It stands on `kubernetes.aio` for configuration, TLS and transport, and sends plain JSON through its low-level call:
the typed methods validate every object with pydantic, which costs more than three times the CPU.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from disttrain import names
from disttrain.controller.api_errors import ApiError, NotFound, Target, Throttled, Unavailable, api_error
from disttrain.controller.connection import Connection
from disttrain.controller.keys import JOB, RESOURCES, Resource
from disttrain.controller.rate_limit import RateLimiter
from disttrain.core.model import Delete, Manifest

TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
REQUESTS_AT_ONCE: Final = 32
MAX_THROTTLED_TRIES: Final = 5
MAX_RETRY_AFTER_SECONDS: Final = 60
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML; the server takes server-side apply by this type only
_JSON: Final = "application/json"

Observer = Callable[[Target, int, float], None]
"""Told of every request: what, HTTP status (0: no answer), seconds."""


@dataclass(frozen=True, slots=True)
class _Request:
    target: Target
    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Manifest | None = None
    content_type: str = _JSON


class ApiClient:
    """Sends requests, never more than `REQUESTS_AT_ONCE` together and never faster than the limiter lets them.

    Every method raises `ApiError`. A 429 is waited for and tried again, since such a request was not carried out;
    nothing else is repeated here, because only the caller's next look at the world can tell what was done.
    """

    def __init__(self, connection: Connection, limiter: RateLimiter, observe: Observer) -> None:
        self._host = connection.host
        self._transport = connection.transport
        self._limiter = limiter
        self._observe = observe
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    # --- objects ---
    async def create(self, manifest: Manifest) -> Manifest:
        """Create an object and give it back as stored. Raises `AlreadyExists`, `Refused`, `NotFound` (no namespace)."""
        metadata = manifest["metadata"]
        resource = RESOURCES[manifest["kind"]]
        target = Target("create", resource, metadata["namespace"], metadata["name"])
        return await self._send(_Request(target, "POST", resource.path(metadata["namespace"]), body=manifest))

    async def delete(self, doomed: Delete, namespace: str) -> Manifest:
        """Delete exactly this object; what it owns goes in the background.

        Gives back the object where it is only marked for deletion, else metav1.Status. Raises `NotFound` when it is
        gone and `Conflict` when the name is another object's by now: either way this one is no more.
        """
        resource = RESOURCES[doomed.kind]
        target = Target("delete", resource, namespace, doomed.name)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": doomed.uid},
            "propagationPolicy": "Background",
        }
        return await self._send(_Request(target, "DELETE", resource.path(namespace, doomed.name), body=options))

    async def find(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """Whoever has this name, or None. A list with a field selector, so that no permission to `get` is needed."""
        resource = RESOURCES[kind]
        target = Target("list", resource, namespace, name)
        query = {"fieldSelector": f"metadata.name={name}", "limit": "1"}
        answer = await self._send(_Request(target, "GET", resource.path(namespace), query))
        items = answer.get("items") or []
        if not items:
            return None
        return {"apiVersion": resource.api_version, "kind": kind, **items[0]}

    # --- the job ---
    async def apply_status(self, identity: Manifest, status: Manifest) -> Manifest:
        """Write a job's whole status by server-side apply and give back the job as stored.

        `identity` is the metadata (name, namespace, uid, resourceVersion) of the job from which the status was
        computed. Raises `Conflict` if that is no longer the newest: compute again; `NotFound` if the job is gone.
        """
        resource = RESOURCES[JOB]
        namespace, name = identity["namespace"], identity["name"]
        return await self._send(
            _Request(
                Target("patch", resource, namespace, name),
                "PATCH",
                resource.path(namespace, name, "status"),
                query={"fieldManager": names.FIELD_MANAGER, "force": "true"},
                body={"apiVersion": names.API_VERSION, "kind": JOB, "metadata": identity, "status": status},
                content_type=_APPLY,
            )
        )

    # --- what is asked once, at the start ---
    async def serves(self, resource: Resource) -> bool:
        """Whether the API server has such objects. Discovery: open to everyone who is authenticated."""
        try:
            answer = await self._send(
                _Request(Target("discover", resource), "GET", f"/apis/{resource.group}/{resource.version}")
            )
        except NotFound:
            return False
        return any(item.get("name") == resource.plural for item in answer.get("resources") or [])

    async def may(self, verb: str, resource: Resource, subresource: str, namespace: str | None) -> bool:
        """Whether our account may do this, in a namespace or (None) in all of them."""
        attributes = {
            "verb": verb,
            "group": resource.group,
            "resource": resource.plural,
            "subresource": subresource,
            "namespace": namespace or "",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self._send(_Request(Target("review", resource), "POST", path, body=review))
        return bool(answer.get("status", {}).get("allowed"))

    # --- how ---
    async def _send(self, request: _Request) -> Manifest:
        for tries_left in reversed(range(MAX_THROTTLED_TRIES)):
            async with self._slots:
                await self._limiter.acquire()
                try:
                    return await self._send_once(request)
                except Throttled:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable: the last try returns or raises")

    async def _send_once(self, request: _Request) -> Manifest:
        started = time.monotonic()
        code = 0
        try:
            url = f"{self._host}{request.path}" + (f"?{urlencode(request.query)}" if request.query else "")
            headers = {"Accept": _JSON, "Content-Type": request.content_type}
            response = await self._transport.request(
                request.method, url, headers=headers, body=request.body, _request_timeout=TIMEOUT
            )
            answer = _parsed(await response.read())
            code = response.status
        except TimeoutError as error:
            raise Unavailable(request.target, 0, "Timeout", f"no answer within {TIMEOUT.total} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(request.target, 0, type(error).__name__, str(error)) from error
        finally:
            self._observe(request.target, code, time.monotonic() - started)
        if 200 <= code < 300:
            return answer
        if code == 429:
            self._limiter.pause(_retry_after(response.headers, answer))
        raise _error(request.target, code, answer)


def _parsed(data: bytes) -> Manifest:
    """The JSON object of an answer; what is none (a proxy's error page) is kept as a message, cut short."""
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        return {"message": data[:256].decode("utf-8", "replace")}
    return answer if isinstance(answer, dict) else {}


def _error(target: Target, code: int, answer: Mapping[str, Any]) -> ApiError:
    return api_error(target, code, str(answer.get("reason") or f"HTTP{code}"), str(answer.get("message") or ""))


def _retry_after(headers: Mapping[str, str], answer: Mapping[str, Any]) -> float:
    """Seconds to wait: the header's (delta-seconds, the only form the API server sends), else metav1.Status'."""
    details = answer.get("details")
    stated = headers.get("Retry-After") or (details.get("retryAfterSeconds") if isinstance(details, dict) else None)
    try:
        seconds = float(stated) if stated is not None else 1.0
    except (TypeError, ValueError):
        seconds = 1.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
