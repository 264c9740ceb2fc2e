"""Just enough of Kubernetes in memory for the life of one job: an API server, a kubelet and the things that go wrong.

Objects are kept as the manifests they were made from, so observing, planning and the status' way through JSON are all
the real ones. `Cluster` also knows the truth that the operator can only infer: which pod ended by itself and how.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from disttrain import names
from disttrain.api.parse import parse_job
from disttrain.api.status import JobStatus, rfc3339
from disttrain.core.model import Delete, Job, Manifest, Observed
from disttrain.core.observe import child_from_manifest, pod_from_manifest
from disttrain_agent import contract

GRACE = 30


class ConflictError(Exception):
    """409: the job is not as new as it was thought to be."""


@dataclass(frozen=True)
class Snapshot:
    """What a cache may hold: the job and the objects at one moment."""

    job: Manifest
    observed: Observed

    @property
    def resource_version(self) -> int:
        version: int = self.job["metadata"]["resourceVersion"]
        return version

    def parsed(self) -> Job:
        return parse_job({**self.job, "metadata": {**self.job["metadata"], "resourceVersion": None}})


@dataclass(frozen=True)
class Fault:
    """Something that hit a pod which nobody had asked to go."""

    uid: str
    role: str
    attempt: int
    counts: bool


@dataclass
class Cluster:
    """One namespace with one job. Every step of the world takes a second, so that times tell what came first."""

    job: Manifest
    now: datetime = datetime(2026, 12, 1, tzinfo=UTC)
    pods: dict[str, Manifest] = field(default_factory=dict)
    children: dict[str, Manifest] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    completed: dict[str, Manifest] = field(default_factory=dict)  # by uid: exited 0 by itself
    made: list[Manifest] = field(default_factory=list)
    mistakes: set[str] = field(default_factory=set)  # uids of what an operator made that did not lead any more
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**9)))

    # --- the API server ---

    def snapshot(self) -> Snapshot:
        pods = tuple(pod for body in self.pods.values() if (pod := pod_from_manifest(body)) is not None)
        children = tuple(child_from_manifest(body["kind"], body) for body in self.children.values())
        return Snapshot(self.job, Observed(pods=pods, children=children))

    def status(self) -> JobStatus:
        return JobStatus.from_manifest(self.job.get("status"))

    def write_status(self, status: JobStatus, resource_version: int) -> None:
        if resource_version != self.job["metadata"]["resourceVersion"]:
            raise ConflictError
        self._change(status=status.to_manifest())

    def create(self, manifest: Manifest, *, by_mistake: bool = False) -> None:
        """Creates or, if the name is taken (AlreadyExists), does nothing. `by_mistake`: by one who should not lead."""
        store = self.pods if manifest["kind"] == "Pod" else self.children
        key = manifest["metadata"]["name"] if manifest["kind"] == "Pod" else manifest["kind"]
        if key in store:
            return
        body = copy.deepcopy(manifest)
        body["metadata"]["uid"] = f"uid-{next(self._numbers)}"
        if manifest["kind"] == "Pod":
            body["status"] = {"phase": "Pending"}
        store[key] = body
        self.made.append(body)
        if by_mistake:
            self.mistakes.add(uid_of(body))

    def delete(self, delete: Delete) -> None:
        """Begins a graceful deletion; another object of the same name is not hit."""
        if delete.kind != "Pod":
            child = self.children.get(delete.kind)
            if child is not None and child["metadata"]["uid"] == delete.uid:
                del self.children[delete.kind]
            return
        pod = self.pods.get(delete.name)
        if pod is not None and pod["metadata"]["uid"] == delete.uid:
            assert self.is_own(pod) or is_deleting(pod)  # I8
            self._begin_deletion(pod)

    def change_spec(self, **fields: Any) -> None:
        metadata = {**self.job["metadata"], "generation": self.job["metadata"]["generation"] + 1}
        self._change(metadata=metadata, spec={**self.job["spec"], **fields})

    def delete_job(self) -> None:
        self._change(metadata={**self.job["metadata"], "deletionTimestamp": rfc3339(self.now)})

    def recreate_job(self) -> None:
        """Deletes the job and creates one of the same name at once; the garbage collector is slow."""
        metadata = {**self.job["metadata"], "uid": f"job-{next(self._numbers)}", "generation": 1}
        for pod in self.pods.values():
            self._begin_deletion(pod)
        self._change(metadata=metadata, status={})
        self.faults.clear()
        self.completed.clear()

    def collect_garbage(self) -> None:
        """Removes what belongs to a job that is no more."""
        for store in (self.pods, self.children):
            for key in [key for key, body in store.items() if not self.is_own(body)]:
                del store[key]

    def is_own(self, body: Manifest) -> bool:
        owned: bool = body["metadata"]["ownerReferences"][0]["uid"] == self.job["metadata"]["uid"]
        return owned

    def _change(self, **parts: Any) -> None:
        """The job is replaced, never altered: snapshots hold the old one."""
        changed = {**self.job, **parts}
        self.job = {**changed, "metadata": {**changed["metadata"], "resourceVersion": next(self._numbers)}}

    def _begin_deletion(self, pod: Manifest) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = rfc3339(self.now + timedelta(seconds=GRACE))
            pod["metadata"]["deletionGracePeriodSeconds"] = GRACE

    # --- the kubelet ---

    def pending(self) -> list[Manifest]:
        return [pod for pod in self.pods.values() if pod["status"]["phase"] == "Pending" and not is_deleting(pod)]

    def running(self) -> list[Manifest]:
        return [pod for pod in self.pods.values() if pod["status"]["phase"] == "Running"]

    def deleting(self) -> list[Manifest]:
        return [pod for pod in self.pods.values() if is_deleting(pod)]

    def start(self, pod: Manifest) -> None:
        pod["status"] = _container("Running", {"running": {"startedAt": rfc3339(self.now)}}, ready=True)

    def exit(self, pod: Manifest, code: int) -> None:
        """The program ends; of itself, unless it was told to."""
        if not is_deleting(pod) and self.is_own(pod):
            if code == 0:
                self.completed[uid_of(pod)] = pod
            else:
                self._fault(pod, counts=code != contract.EXIT_SAVED)
        terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": rfc3339(self.now)}
        pod["status"] = _container("Failed" if code else "Succeeded", {"terminated": terminated}, ready=False)

    def remove(self, pod: Manifest) -> None:
        """The last step of a deletion."""
        del self.pods[pod["metadata"]["name"]]

    # --- what goes wrong ---

    def evict(self, pod: Manifest) -> None:
        self._fault(pod, counts=False)
        pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}

    def delete_by_hand(self, pod: Manifest) -> None:
        self._fault(pod, counts=False)
        self._begin_deletion(pod)

    def vanish(self, pod: Manifest) -> None:
        """A forced deletion, or a node that is gone and collected. What it had completed may be unknown to all now."""
        self._fault(pod, counts=False)
        self.remove(pod)

    def _fault(self, pod: Manifest, *, counts: bool) -> None:
        if not is_deleting(pod) and self.is_own(pod):
            self.faults.append(Fault(uid_of(pod), role_of(pod), attempt_of(pod), counts))


def new_job(spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "recsys", "namespace": "team-a", "uid": "job-0", "generation": 1, "resourceVersion": 0},
        "spec": {"template": {"spec": {"containers": [{"name": "trainer"}]}}, **spec},
    }


def uid_of(pod: Manifest) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def role_of(pod: Manifest) -> str:
    role: str = pod["metadata"]["labels"][names.LABEL_ROLE]
    return role


def attempt_of(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])


def is_deleting(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def index_of(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"][names.LABEL_INDEX])


def told_cluster(pod: Manifest) -> str:
    """What the pod was told of the job's size."""
    environment = pod["spec"]["containers"][0]["env"]
    value: str = next(entry["value"] for entry in environment if entry["name"] == contract.ENV_CLUSTER)
    return value


def in_role(pods: Iterable[Manifest], *roles: str) -> list[Manifest]:
    return [pod for pod in pods if role_of(pod) in roles]


def _container(phase: str, state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": "trainer", "ready": ready, "state": state}]}
