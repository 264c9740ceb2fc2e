"""What the operator knows of the cluster: kopf's indexes, and on top of them the answers to our own writes.

A watch tells of our own writes only some time later. Until it does, what the API server answered stands in their
place, so that a second look neither makes a pod again nor counts a failure twice. Of two versions of an object the
newer counts; an object known to be gone stays gone, whatever arrives late. Reading costs no request.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from disttrain import names
from disttrain.api.parse import parse_job
from disttrain.api.status import JobStatus
from disttrain.controller.keys import JOB, POD, WATCHED, JobKey
from disttrain.controller.streams import Listing
from disttrain.core.model import Child, Job, Manifest, Observed, Pod
from disttrain.core.observe import child_from_manifest, pod_from_manifest

TOMBSTONE_SECONDS: Final = 600.0
"""How long an object is remembered to be gone: far longer than an event or an answer can be late."""

FOREIGN_SECONDS: Final = names.RETRY_SECONDS - 1.0
"""How long somebody else's object is taken to be still in the way; it has no label of ours, so no watch tells. In doubt
again at each retry, which comes a moment less than RETRY_SECONDS after it was found there."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One version of one object. Compared by identity: kopf compares entries, and two versions are never the same."""

    kind: str
    key: JobKey
    """The job it belongs to, by name."""
    uid: str
    version: int
    """resourceVersion, which is ordered within a resource (KEP-5504; required of every API server from 1.35)."""
    value: Job | Pod | Child


Index = Mapping[JobKey, Iterable[Entry]]


class _Grave(NamedTuple):
    """An object known to be gone: versions of it up to this one count no more."""

    kind: str
    key: JobKey
    version: float
    until: float
    """When this may be forgotten."""


class World(NamedTuple):
    """A job, everything that carries its name, and the resourceVersion it was read at."""

    job: Job
    observed: Observed
    resource_version: str


@dataclass(slots=True)
class _Obstacles:
    """Why objects of a job could not be made. In memory only: a new operator finds out again."""

    job_uid: str = ""
    foreign: dict[tuple[str, str], float] = field(default_factory=dict)  # (kind, name) -> believed until
    refused: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)  # -> (words, when)


class Cache:
    """The view of every job's world. `time` gives monotonic seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._indexes: Mapping[str, Index] = {}
        self._answers: defaultdict[JobKey, dict[str, Entry]] = defaultdict(dict)
        self._graves: dict[str, _Grave] = {}  # by uid, the oldest first
        self._parsed: dict[str, Job] = {}  # by uid, at its newest generation
        self._obstacles: dict[JobKey, _Obstacles] = {}

    # --- what comes in ---
    def attach(self, indexes: Mapping[str, Index]) -> None:
        """Use these indexes, by kind. kopf fills them before it calls the first handler, and keeps them."""
        self._indexes = indexes

    @staticmethod
    def key_of(kind: str, body: Mapping[str, Any]) -> JobKey | None:
        """The job that an object belongs to by its name or label; whether it is really the job's, its owner tells."""
        metadata = body["metadata"]
        name = metadata["name"] if kind == JOB else (metadata.get("labels") or {}).get(names.LABEL_JOB_NAME)
        return JobKey(metadata["namespace"], name) if name else None

    def read(self, kind: str, body: Mapping[str, Any]) -> Entry | None:
        """An object as an entry; None if it is nothing of ours. Never raises for what a user put into it."""
        key = self.key_of(kind, body)
        uid, version = body["metadata"]["uid"], int(body["metadata"]["resourceVersion"])
        if key is not None:
            answered = self._answers.get(key, {}).get(uid)
            if answered is not None and answered.version == version:
                return answered  # the echo of our own write: read once already
        value: Job | Pod | Child | None
        if kind == JOB:
            value = self._job(body)
        else:
            value = pod_from_manifest(body) if kind == POD else child_from_manifest(kind, body)
        if value is None or key is None:
            return None
        return Entry(kind, key, uid, version, value)

    def answered(self, kind: str, body: Manifest) -> None:
        """Remember an object as the API server gave it back for a write of ours, or in a look-up."""
        entry = self.read(kind, body)
        if entry is not None and not self._is_gone(entry):
            newest = self._answers[entry.key].get(entry.uid)
            if newest is None or newest.version <= entry.version:
                self._answers[entry.key][entry.uid] = entry

    def gone(self, kind: str, key: JobKey, uid: str, version: float = math.inf) -> None:
        """Remember that an object is no more.

        `version` is the resourceVersion of its end. A watch with a label selector tells of an object that lost the
        label as of one deleted; when it comes back, it is newer than that.
        """
        self._graves.pop(uid, None)
        self._graves[uid] = _Grave(kind, key, version, self._time() + TOMBSTONE_SECONDS)
        self._forget_answer(key, uid)
        if kind == JOB:
            self._parsed.pop(uid, None)
        self._expire()

    def relisted(self, listing: Listing, kind: str) -> set[JobKey]:
        """Take what a repeated listing does not mention for gone; the jobs this concerns."""
        known = [*self._indexed(kind), *(entry for entries in self._answers.values() for entry in entries.values())]
        concerned = set()
        for entry in known:
            in_scope = entry.kind == kind and listing.stream.namespace in ("", entry.key.namespace)
            missing = entry.uid not in listing.uids and entry.version <= listing.version
            if in_scope and missing and not self._is_gone(entry):
                self.gone(kind, entry.key, entry.uid, listing.version)
                concerned.add(entry.key)
        return concerned

    # --- what stands in the way of creates ---
    def in_the_way(self, key: JobKey, job_uid: str, kind: str, name: str) -> None:
        """Remember that somebody else's object has a name that the job needs."""
        self._obstacles_of(key, job_uid).foreign[kind, name] = self._time() + FOREIGN_SECONDS

    def refused(self, key: JobKey, job_uid: str, kind: str, name: str, words: str) -> None:
        """Remember that the API server refused to create an object, and its words."""
        self._obstacles_of(key, job_uid).refused[kind, name] = (words, self._time())

    def free(self, key: JobKey, kind: str, name: str) -> None:
        """Nothing stands in the way of this object any more."""
        obstacles = self._obstacles.get(key)
        if obstacles is not None:
            obstacles.refused.pop((kind, name), None)
            obstacles.foreign.pop((kind, name), None)

    def refusals(self, key: JobKey) -> dict[tuple[str, str], float]:
        """(kind, name) of the objects of a job that the API server refused, and how many seconds ago."""
        obstacles = self._obstacles.get(key)
        now = self._time()
        return {what: now - when for what, (_, when) in obstacles.refused.items()} if obstacles else {}

    def doubtful(self, key: JobKey) -> list[tuple[str, str]]:
        """(kind, name) of foreign objects of which it is time to ask whether they are still there."""
        obstacles = self._obstacles.get(key)
        now = self._time()
        return [what for what, until in obstacles.foreign.items() if until <= now] if obstacles else []

    # --- what goes out ---
    def observed(self, key: JobKey) -> World | None:
        """A job and its world as known now, or None if there is no such job."""
        entries = self._entries(key)
        jobs = [entry for entry in entries if entry.kind == JOB]
        if not jobs:
            self._obstacles.pop(key, None)
            return None
        newest = max(jobs, key=lambda entry: entry.version)
        job = newest.value
        assert isinstance(job, Job)  # noqa: S101  by kind
        foreign, refused = self._obstacles_for(key, job)
        observed = Observed(
            pods=tuple(sorted((e.value for e in entries if isinstance(e.value, Pod)), key=lambda pod: pod.name)),
            children=tuple(e.value for e in entries if isinstance(e.value, Child)),
            foreign=foreign,
            refused=refused,
        )
        return World(job, observed, str(newest.version))

    def explains(self, key: JobKey, kind: str, name: str) -> bool:
        """Whether an object of this kind and name is known by now."""
        return any(
            entry.kind == kind and isinstance(entry.value, Pod | Child) and entry.value.name == name
            for entry in self._entries(key)
        )

    def jobs(self) -> Iterator[Job]:
        """Every job, as the watch last told of it."""
        for entry in self._indexed(JOB):
            if isinstance(entry.value, Job) and not self._is_gone(entry):
                yield entry.value

    def keys(self) -> set[JobKey]:
        """The key of every job."""
        return {JobKey(job.namespace, job.name) for job in self.jobs()}

    # --- how ---
    def _job(self, body: Mapping[str, Any]) -> Job:
        """Parsing a spec is costly and a spec changes only with the generation; the status changes all the time."""
        metadata = body["metadata"]
        known = self._parsed.get(metadata["uid"])
        if known is not None and known.generation == metadata.get("generation"):
            status = JobStatus.from_manifest(body.get("status"))
            return replace(known, status=status, deleting="deletionTimestamp" in metadata)
        job = parse_job(body)
        if known is None or known.generation < job.generation:
            self._parsed[job.uid] = replace(job, status=JobStatus())
        return job

    def _entries(self, key: JobKey) -> list[Entry]:
        """The newest version of every object of a job that is not gone."""
        newest = {
            entry.uid: entry
            for kind in WATCHED
            for entry in self._indexes.get(kind, {}).get(key, ())
            if not self._is_gone(entry)
        }
        for uid, answer in list(self._answers.get(key, {}).items()):
            watched = newest.get(uid)
            if watched is not None and watched.version >= answer.version:
                self._forget_answer(key, uid)
            else:
                newest[uid] = answer
        return list(newest.values())

    def _indexed(self, kind: str) -> list[Entry]:
        index = self._indexes.get(kind, {})
        return [entry for key in index for entry in index[key]]

    def _forget_answer(self, key: JobKey, uid: str) -> None:
        answers = self._answers.get(key)
        if answers is not None:
            answers.pop(uid, None)
            if not answers:
                del self._answers[key]

    def _is_gone(self, entry: Entry) -> bool:
        grave = self._graves.get(entry.uid)
        return grave is not None and entry.version <= grave.version

    def _expire(self) -> None:
        """Forget the oldest graves, but not while kopf still has the object: it would rise again."""
        while self._graves:
            uid, grave = next(iter(self._graves.items()))
            if grave.until > self._time():
                return
            del self._graves[uid]
            if any(entry.uid == uid for entry in self._indexes.get(grave.kind, {}).get(grave.key, ())):
                self._graves[uid] = grave._replace(until=self._time() + TOMBSTONE_SECONDS)

    def _obstacles_of(self, key: JobKey, job_uid: str) -> _Obstacles:
        obstacles = self._obstacles.get(key)
        if obstacles is None or obstacles.job_uid != job_uid:
            obstacles = self._obstacles[key] = _Obstacles(job_uid)
        return obstacles

    def _obstacles_for(self, key: JobKey, job: Job) -> tuple[frozenset[tuple[str, str]], dict[tuple[str, str], str]]:
        obstacles = self._obstacles.get(key)
        if obstacles is None or obstacles.job_uid != job.uid:
            return frozenset(), {}
        return frozenset(obstacles.foreign), {what: words for what, (words, _) in obstacles.refused.items()}
