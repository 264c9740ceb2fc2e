"""A FAKE API server, for the shell's HTTP: it speaks enough Kubernetes to be listed, watched and written to.

It keeps objects by path, gives them uids and resourceVersions, checks the preconditions that the operator relies on,
and answers wrongly where a test asks for it. What a real one does is shown in `tests/emulator`, not here.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Manifest = dict[str, Any]
KINDS = {
    "disttrainjobs": "DistTrainJob",
    "pods": "Pod",
    "services": "Service",
    "networkpolicies": "NetworkPolicy",
    "events": "Event",
    "namespaces": "Namespace",  # kopf waits until discovery tells of them, and of the CRDs, but reads neither
    "customresourcedefinitions": "CustomResourceDefinition",
}
GROUPS = {
    "apiextensions.k8s.io": ["v1"],
    "disttrain.dev": ["v1alpha1"],
    "networking.k8s.io": ["v1"],
    "events.k8s.io": ["v1"],
}


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """What to say instead of the truth, once."""

    status: int
    body: Manifest
    headers: dict[str, str] = field(default_factory=dict)
    after_commit: bool = False
    """Carry the request out all the same: the answer that gets lost."""


class FakeApiServer:
    """Objects by (plural, namespace, name), and everybody who watches."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        self.asked: list[Asked] = []
        self.wrong_answers: dict[tuple[str, str], deque[Answer]] = {}
        """(method, plural) -> answers."""
        self.denied: set[str] = set()
        """`verb plural[/subresource]` that access reviews deny."""
        self.token: str | None = None
        """The only bearer token accepted; None: any."""
        self.has_crd = True
        self.version = 100
        self._watchers: list[tuple[str, asyncio.Queue[Manifest | None]]] = []
        self._history: list[tuple[int, str, Manifest]] = []  # for watches that begin at an older version
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self.server = TestServer(app)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeApiServer]:
        await self.server.start_server()
        try:
            yield self
        finally:
            self.hang_up()
            await self.server.close()

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def kubeconfig(self, token: str = "secret-token") -> str:
        cluster = {"name": "fake", "cluster": {"server": self.url}}
        user = {"name": "me", "user": {"token": token}}
        context = {"name": "it", "context": {"cluster": "fake", "user": "me"}}
        return json.dumps({"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "it"})

    # --- what a test does to it ---
    def put(self, manifest: Manifest) -> Manifest:
        """Store an object behind the operator's back."""
        plural = next(plural for plural, kind in KINDS.items() if kind == manifest["kind"])
        metadata = manifest["metadata"]
        key = (plural, metadata["namespace"], metadata["name"])
        event = "MODIFIED" if key in self.objects else "ADDED"
        return self._store(key, manifest, event)

    def remove(self, plural: str, namespace: str, name: str, *, tell: bool = True) -> None:
        """Delete an object; `tell` False: no watch hears of it."""
        body = self.objects.pop((plural, namespace, name))
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        if tell:
            self._tell(plural, {"type": "DELETED", "object": body})

    def answer_wrongly(self, method: str, plural: str, *answers: Answer) -> None:
        self.wrong_answers.setdefault((method, plural), deque()).extend(answers)

    def bookmark(self) -> None:
        self.version += 1
        for plural, kind in KINDS.items():
            body = {"kind": kind, "metadata": {"resourceVersion": str(self.version)}}
            self._tell(plural, {"type": "BOOKMARK", "object": body})

    def expire(self, plural: str) -> None:
        """Tell the watches of a resource that their version is too old."""
        self._tell(plural, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})

    def hang_up(self) -> None:
        """End all watches."""
        for _, queue in self._watchers:
            queue.put_nowait(None)

    def requests(self, method: str, plural: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method and f"/{plural}" in asked.path]

    def watched(self) -> set[str]:
        return {plural for plural, _ in self._watchers}

    # --- what it does ---
    def _store(self, key: tuple[str, str, str], manifest: Manifest, event: str) -> Manifest:
        self.version += 1
        metadata = {"uid": f"uid-{self.version}", "generation": 1, **manifest["metadata"]}
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("creationTimestamp", "2026-12-01T19:00:00Z")
        body = {**manifest, "metadata": metadata}
        self.objects[key] = body
        self._tell(key[0], {"type": event, "object": body})
        return body

    def _tell(self, plural: str, event: Manifest) -> None:
        if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
            self._history.append((self.version, plural, event))
        for watched, queue in self._watchers:
            if watched == plural:
                queue.put_nowait(event)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(text) if text else None,
        )
        self.asked.append(asked)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized", "Unauthorized")
        return await self._route(request, asked)

    async def _route(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts[-1] == "selfsubjectaccessreviews":
            return self._review(asked)
        if parts == ["api"]:
            return web.json_response({"versions": ["v1"]})
        if parts == ["apis"]:
            return web.json_response({"groups": [_group(name, versions) for name, versions in GROUPS.items()]})
        collection = parts[2:] if parts[0] == "api" else parts[3:]
        if not collection:
            return self._discover(parts[1] if parts[0] == "apis" else "")
        return await self._object(request, asked, collection)

    async def _object(self, request: web.Request, asked: Asked, collection: list[str]) -> web.StreamResponse:
        namespace = ""
        if collection[0] == "namespaces":
            namespace, collection = collection[1], collection[2:]
        plural, name = collection[0], collection[1] if len(collection) > 1 else ""
        wrong = self.wrong_answers.get((request.method, plural))
        answer = wrong.popleft() if wrong else None
        if answer is not None and not answer.after_commit:
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        response = await self._truth(request, asked, (plural, namespace, name))
        if answer is not None:
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        return response

    async def _truth(self, request: web.Request, asked: Asked, key: tuple[str, str, str]) -> web.StreamResponse:
        if request.method == "GET":
            return await self._watch(request, key[0]) if "watch" in asked.query else self._list(asked, key)
        if request.method == "POST":
            return self._create(asked, key)
        if key not in self.objects:
            return _status(404, "NotFound", f"{key[0]} {key[2]!r} not found")
        return self._delete(asked, key) if request.method == "DELETE" else self._apply_status(asked, key)

    def _list(self, asked: Asked, key: tuple[str, str, str]) -> web.Response:
        plural, namespace, _ = key
        name = asked.query.get("fieldSelector", "").removeprefix("metadata.name=")
        label = asked.query.get("labelSelector", "")
        items = [
            {part: value for part, value in body.items() if part not in ("kind", "apiVersion")}
            for (of, where, called), body in self.objects.items()
            if of == plural and namespace in ("", where) and name in ("", called)
            if not label or label in body["metadata"].get("labels", {})
        ]
        parts = asked.path.strip("/").split("/")
        api_version = parts[1] if parts[0] == "api" else f"{parts[1]}/{parts[2]}"
        listing = {"kind": f"{KINDS[plural]}List", "apiVersion": api_version, "items": items}
        return web.json_response({**listing, "metadata": {"resourceVersion": str(self.version)}})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        queue: asyncio.Queue[Manifest | None] = asyncio.Queue()
        since = int(request.query.get("resourceVersion", self.version))
        for version, told, past in self._history:
            if version > since and told == plural:
                queue.put_nowait(past)
        self._watchers.append((plural, queue))
        response = web.StreamResponse()
        try:
            await response.prepare(request)
            while (event := await queue.get()) is not None:
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.remove((plural, queue))
        return response

    def _create(self, asked: Asked, key: tuple[str, str, str]) -> web.Response:
        name = asked.body["metadata"]["name"]
        if (*key[:2], name) in self.objects:
            return _status(409, "AlreadyExists", f'{key[0]} "{name}" already exists')
        return web.json_response(self._store((*key[:2], name), asked.body, "ADDED"), status=201)

    def _delete(self, asked: Asked, key: tuple[str, str, str]) -> web.Response:
        wanted = asked.body["preconditions"]["uid"]
        if wanted != self.objects[key]["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match")
        self.remove(*key)
        return web.json_response({"kind": "Status", "status": "Success"})

    def _apply_status(self, asked: Asked, key: tuple[str, str, str]) -> web.Response:
        there, given = self.objects[key]["metadata"], asked.body["metadata"]
        if there["resourceVersion"] != given["resourceVersion"] or there["uid"] != given["uid"]:
            return _status(409, "Conflict", "the object has been modified")
        return web.json_response(self._store(key, {**self.objects[key], "status": asked.body["status"]}, "MODIFIED"))

    def _review(self, asked: Asked) -> web.Response:
        attributes = asked.body["spec"]["resourceAttributes"]
        what = "/".join(part for part in (attributes["resource"], attributes["subresource"]) if part)
        allowed = f"{attributes['verb']} {what}" not in self.denied
        return web.json_response({**asked.body, "status": {"allowed": allowed}}, status=201)

    def _discover(self, group: str) -> web.Response:
        plurals = {
            "": ("pods", "services", "namespaces"),
            "apiextensions.k8s.io": ("customresourcedefinitions",),
            "disttrain.dev": ("disttrainjobs",) if self.has_crd else (),
            "networking.k8s.io": ("networkpolicies",),
            "events.k8s.io": ("events",),
        }.get(group, ())
        if not plurals:
            return _status(404, "NotFound", "the server could not find the requested resource")
        verbs = ["create", "delete", "get", "list", "patch", "watch"]
        resources = [
            {
                "name": plural,
                "singularName": KINDS[plural].lower(),
                "kind": KINDS[plural],
                "namespaced": True,
                "verbs": verbs,
            }
            for plural in plurals
        ]
        return web.json_response({"kind": "APIResourceList", "resources": resources})


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return web.json_response(body, status=code)


def _group(name: str, versions: list[str]) -> Manifest:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}
