"""Stand-ins for what the shell meets, and objects to feed it with. The real API server is met in `tests/emulator`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from disttrain import names
from disttrain.controller.api_errors import ApiError
from disttrain.controller.cache import Cache, Entry
from disttrain.controller.keys import JOB, NETWORK_POLICY, POD, SERVICE, JobKey
from disttrain.core.model import Delete, Manifest

NOW = datetime(2026, 12, 1, 20, 0, 0, tzinfo=UTC)
KEY = JobKey("ml", "recsys")
JOB_UID = "job-uid"


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(30):
        await asyncio.sleep(0)


class FakeTimers:
    """A clock that stands still until a test turns it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._alarms: list[_Alarm] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> _Alarm:
        alarm = _Alarm(when, callback, args)
        self._alarms.append(alarm)
        return alarm

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [alarm for alarm in self._alarms if alarm.when <= end and not alarm.cancelled]:
            alarm = min(due, key=lambda each: each.when)
            self._alarms.remove(alarm)
            self.now = max(self.now, alarm.when)
            alarm.callback(*alarm.args)
        self.now = end


@dataclass(eq=False)
class _Alarm:
    when: float
    callback: Callable[..., Any]
    args: tuple[Any, ...]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


# --- objects, as the API server gives them ---


def job_manifest(version: int = 10, *, uid: str = JOB_UID, generation: int = 1, status: Any = None) -> Manifest:
    return {
        "apiVersion": names.API_VERSION,
        "kind": JOB,
        "metadata": {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "uid": uid,
            "generation": generation,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-12-01T19:00:00Z",
        },
        "spec": {
            "strategy": "MultiWorkerMirrored",
            "template": {"spec": {"containers": [{"name": "trainer", "image": "r/recsys:7"}]}},
            "roles": {"worker": {"replicas": 2}},
        },
        "status": status or {},
    }


def owned(kind: str, name: str, version: int, uid: str, owner: str = JOB_UID) -> Manifest:
    """An object with the job's label, as the operator would have made it."""
    api_version = {POD: "v1", SERVICE: "v1", NETWORK_POLICY: "networking.k8s.io/v1"}[kind]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": KEY.namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {names.LABEL_JOB_NAME: KEY.name, names.LABEL_ATTEMPT: "1"},
            "ownerReferences": [
                {"apiVersion": names.API_VERSION, "kind": JOB, "name": KEY.name, "uid": owner, "controller": True}
            ],
        },
        "spec": {"containers": [{"name": "trainer", "image": "r/recsys:7"}]} if kind == POD else {},
    }


def pod(index: int = 0, version: int = 20, uid: str | None = None, owner: str = JOB_UID) -> Manifest:
    return owned(POD, f"{KEY.name}-worker-{index}", version, uid or f"pod-{index}", owner)


def deleting(manifest: Manifest, version: int) -> Manifest:
    """The same object, marked for deletion."""
    metadata = {**manifest["metadata"], "resourceVersion": str(version), "deletionTimestamp": "2026-12-01T20:02:00Z"}
    return {**manifest, "metadata": metadata}


# --- kopf's indexes ---


class FakeIndexes:
    """What kopf keeps: the objects that the watch has told of so far."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._objects: dict[str, dict[JobKey, dict[str, Entry]]] = {
            kind: {} for kind in (JOB, POD, SERVICE, NETWORK_POLICY)
        }
        cache.attach({kind: _Index(objects) for kind, objects in self._objects.items()})

    def told(self, *manifests: Manifest) -> None:
        """The watch tells of these objects."""
        for manifest in manifests:
            entry = self._cache.read(manifest["kind"], manifest)
            assert entry is not None
            self._objects[entry.kind].setdefault(entry.key, {})[entry.uid] = entry

    def forgot(self, manifest: Manifest) -> None:
        """kopf drops an object from its index, as it does for a DELETED event."""
        for entries in self._objects[manifest["kind"]].values():
            entries.pop(manifest["metadata"]["uid"], None)


class _Index(Mapping[JobKey, list[Entry]]):
    def __init__(self, objects: dict[JobKey, dict[str, Entry]]) -> None:
        self._objects = objects

    @override
    def __getitem__(self, key: JobKey) -> list[Entry]:
        return list(self._objects[key].values())

    @override
    def __iter__(self) -> Any:
        return iter(self._objects)

    @override
    def __len__(self) -> int:
        return len(self._objects)


# --- the API, for the reconciler ---


@dataclass
class FakeApi:
    """Records what is asked, in order, and answers as told; else as an API server where all goes well."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    statuses: list[Manifest] = field(default_factory=list)
    identities: list[Manifest] = field(default_factory=list)
    errors: dict[tuple[str, str], ApiError] = field(default_factory=dict)
    """(verb, name) -> what to raise, until removed."""
    found: dict[str, Manifest] = field(default_factory=dict)
    delete_answers: dict[str, Manifest] = field(default_factory=dict)
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    async def create(self, manifest: Manifest) -> Manifest:
        name = manifest["metadata"]["name"] if manifest["kind"] != "Event" else manifest["reason"]
        await self._asked("create", name)
        version = next(self._versions)
        metadata = {**manifest["metadata"], "uid": f"uid-{version}", "resourceVersion": str(version)}
        return {**manifest, "metadata": metadata}

    async def delete(self, doomed: Delete, namespace: str) -> Manifest:
        await self._asked("delete", doomed.name)
        return self.delete_answers.get(doomed.name, {"kind": "Status", "status": "Success"})

    async def find(self, kind: str, namespace: str, name: str) -> Manifest | None:
        await self._asked("find", name)
        return self.found.get(name)

    async def apply_status(self, identity: Manifest, status: Manifest) -> Manifest:
        await self._asked("status", identity["name"])
        self.identities.append(identity)
        self.statuses.append(status)
        return job_manifest(next(self._versions), uid=identity["uid"], status=status)

    async def _asked(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        await asyncio.sleep(0)  # as a real request would, it lets others run
        error = self.errors.get((verb, name))
        if error is not None:
            raise error

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]

    def named(self, verb: str) -> list[str]:
        return [name for asked, name in self.calls if asked == verb]
