"""A small asynchronous client of the API server for tests: plain JSON in and out, nothing hidden."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """Where a kind of object lives in the API."""

    api: str
    plural: str


RESOURCES: Mapping[str, Resource] = {
    "DistTrainJob": Resource("apis/disttrain.dev/v1alpha1", "disttrainjobs"),
    "Pod": Resource("api/v1", "pods"),
    "Service": Resource("api/v1", "services"),
    "NetworkPolicy": Resource("apis/networking.k8s.io/v1", "networkpolicies"),
    "Event": Resource("apis/events.k8s.io/v1", "events"),
    "ServiceAccount": Resource("api/v1", "serviceaccounts"),
    "ResourceQuota": Resource("api/v1", "resourcequotas"),
    "Role": Resource("apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Resource("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
}


class RefusedError(Exception):
    """The API server said no: its status code, reason and words."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class Kube:
    """Requests in the name of one user. Made by `connect`."""

    def __init__(self, session: aiohttp.ClientSession, server: str, headers: Mapping[str, str]) -> None:
        self._session = session
        self._server = server
        self._headers = headers

    def impersonating(self, user: str) -> Kube:
        """The same connection in another user's name, with that user's permissions."""
        return Kube(self._session, self._server, {"Impersonate-User": user})

    async def create(self, manifest: Manifest, namespace: str, *, dry_run: bool = False) -> Manifest:
        path = self._path(manifest["kind"], namespace)
        return await self._ask("POST", path, json.dumps(manifest), query={"dryRun": "All"} if dry_run else {})

    async def create_strict(self, kind: str, namespace: str, body: str) -> Manifest:
        """Creates from JSON text as it is; unknown and repeated fields are refused, as kubectl asks for."""
        return await self._ask("POST", self._path(kind, namespace), body, query={"fieldValidation": "Strict"})

    async def get(self, kind: str, namespace: str, name: str) -> Manifest:
        return await self._ask("GET", self._path(kind, namespace, name))

    async def list(self, kind: str, namespace: str) -> list[Manifest]:
        answer = await self._ask("GET", self._path(kind, namespace))
        return list(answer["items"])

    async def patch(self, kind: str, namespace: str, name: str, patch: Manifest, subresource: str = "") -> Manifest:
        """A JSON merge patch."""
        path = self._path(kind, namespace, name, subresource)
        return await self._ask("PATCH", path, json.dumps(patch), content_type="application/merge-patch+json")

    async def delete(self, kind: str, namespace: str, name: str) -> Manifest:
        """In the background, as kubectl does."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        return await self._ask("DELETE", self._path(kind, namespace, name), json.dumps(options))

    async def create_namespace(self, name: str) -> None:
        await self._ask("POST", "api/v1/namespaces", json.dumps({"metadata": {"name": name}}))

    async def delete_namespace(self, name: str) -> None:
        await self._ask("DELETE", f"api/v1/namespaces/{name}")

    async def watch(self, kind: str, namespace: str) -> AsyncIterator[Manifest]:
        """Every object that is there, then every change: watch events without an end."""
        url = f"{self._server}/{self._path(kind, namespace)}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._session.get(url, params={"watch": "1"}, timeout=timeout, headers=self._headers) as response:
            await _check(response)
            pending = b""
            # Not by readline: it gives up on lines beyond 64 KB.
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        headers = {**self._headers, "Content-Type": content_type}
        url = f"{self._server}/{path}"
        async with self._session.request(method, url, data=body, params=query, headers=headers) as response:
            await _check(response)
            return dict(await response.json())

    @staticmethod
    def _path(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
        resource = RESOURCES[kind]
        parts = (resource.api, "namespaces", namespace, resource.plural, name, subresource)
        return "/".join(part for part in parts if part)


@asynccontextmanager
async def connect(kubeconfig: str) -> AsyncIterator[Kube]:
    """As the user of a kubeconfig's text, JSON with a client certificate or a token in it (`tests.cluster.pki`)."""
    config = json.loads(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        _load_certificate(context, user)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout) as session:
        yield Kube(session, cluster["server"], headers)


def _load_certificate(context: ssl.SSLContext, user: Mapping[str, str]) -> None:
    with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files only
        for part in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[part]))
        file.flush()
        context.load_cert_chain(file.name)


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    text = await response.text()
    try:
        status = json.loads(text)
    except ValueError:
        status = {}
    raise RefusedError(response.status, status.get("reason", ""), status.get("message", text))
