"""One look at one job: read the world, ask the core for a plan, carry it out.

Order: status, deletes, creates, events. The status comes first because it carries the counts: were the operator to die
after the deletes, a failure that nobody wrote down would be found a second time, or never. If the status cannot be
written, since the job is not what we took it for any more, nothing else of the plan is done.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.controller import logs, metrics
from disttrain.controller.api_errors import AlreadyExists, ApiError, Conflict, NotFound, Refused
from disttrain.controller.cache import Cache, World
from disttrain.controller.events import event_manifest
from disttrain.controller.keys import JOB, POD, JobKey
from disttrain.core.model import Delete, Job, Manifest, Observed, Plan, Settings

WRITES_AT_ONCE: Final = 16
"""For one job; half of what the client sends at once, so that the largest job leaves room for the others."""

HOLD_SECONDS: Final = 1.0
"""How long a status that only counts on may wait for the next change, to be written with it."""

UNEXPLAINED_RETRY_SECONDS: Final = 1.0

_log = logs.logger("reconcile")
T = TypeVar("T")


class Writer(Protocol):
    """What of the API client is used here."""

    async def create(self, manifest: Manifest) -> Manifest: ...  # noqa: D102
    async def delete(self, doomed: Delete, namespace: str) -> Manifest: ...  # noqa: D102
    async def find(self, kind: str, namespace: str, name: str) -> Manifest | None: ...  # noqa: D102
    async def apply_status(self, identity: Manifest, status: Manifest) -> Manifest: ...  # noqa: D102


Planner = Callable[[Job, Observed, datetime, Settings], Plan]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a look at a job depends on besides the job: the administrator's choices, who we are, and the time."""

    settings: Settings
    reporter: str
    """This operator's pod or host, for events."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


class Reconciler:
    """Makes the cluster what the plan says, one job at a time. Called by the work queue, never twice for one key."""

    def __init__(
        self,
        cache: Cache,
        api: Writer,
        plan: Planner,
        surroundings: Surroundings,
        measured: metrics.Metrics,
    ) -> None:
        self._cache = cache
        self._api = api
        self._plan = plan
        self._around = surroundings
        self._metrics = measured
        self._held: dict[JobKey, float] = {}  # status writes held back, and until when
        self._stopping = False

    async def reconcile(self, key: JobKey) -> float | None:
        """Look at one job. Gives back in how many seconds to look again (`math.inf`: no wish), None when it is gone.

        Raises `ApiError` when something could not be done that should be tried again.
        """
        started = time.monotonic()
        outcome = metrics.ERROR
        try:
            again = await self._look(key)
            outcome = metrics.SUCCESS
        except Conflict:
            outcome = metrics.CONFLICT
            raise
        finally:
            self._metrics.observe_reconcile(outcome, time.monotonic() - started)
        return again

    def stop(self) -> None:
        """Begin no more writes. Whoever comes next sees what is there and goes on with it."""
        self._stopping = True

    def failed(self, key: JobKey, error: Exception, delay: float) -> None:
        """Say that a look at a job failed and comes again. A conflict is part of normal life."""
        fields = {"namespace": key.namespace, "name": key.name, "retry_in_seconds": round(delay, 3)}
        if isinstance(error, Conflict):
            _log.info("the job changed meanwhile, looking again", extra=fields)
        elif isinstance(error, ApiError):
            _log.warning("%s", error, extra={**fields, "code": error.code, "reason": error.reason})
        else:
            _log.error("reconcile failed: this is a bug", extra=fields, exc_info=error)

    async def _look(self, key: JobKey) -> float | None:
        world = self._cache.observed(key)
        if world is None:
            self._held.pop(key, None)
            return None
        if await self._ask_again(key, world.job):
            return 0.0
        now = self._around.now()
        plan = self._plan(world.job, world.observed, now, self._around.settings)
        wakes = [math.inf]
        if plan.wake_at is not None:
            wakes.append(max((plan.wake_at - now).total_seconds(), 0.0))
        held_for = self._hold(key, plan)
        if held_for > 0:
            return min(*wakes, held_for)
        if plan.status is not None and not await self._write_status(key, world, plan.status):
            return None
        try:
            await self._delete(key, world.job, plan.deletes)
            wakes.append(await self._create(key, world.job, plan.creates))
        except ApiError:
            await self._tell(world.job, plan)  # what was written must be told, whatever failed after it
            raise
        await self._tell(world.job, plan)
        return min(wakes)

    # --- status ---
    def _hold(self, key: JobKey, plan: Plan) -> float:
        """Seconds for which the plan may wait: only where it is no more than a status that counts on.

        Nothing is kept of it: when the time has come, the plan is made anew from newer facts.
        """
        if plan.status is None or plan.urgent or plan.deletes or plan.creates:
            self._held.pop(key, None)
            return 0.0
        until = self._held.setdefault(key, self._around.monotonic() + HOLD_SECONDS)
        remaining = until - self._around.monotonic()
        if remaining <= 0:
            del self._held[key]
        return remaining

    async def _write_status(self, key: JobKey, world: World, status: JobStatus) -> bool:
        """Write it. False if the job is gone. Raises `Conflict` if it is not the one, or as new as, it was."""
        job = world.job
        identity = {
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "resourceVersion": world.resource_version,
        }
        try:
            stored = await self._api.apply_status(identity, status.to_manifest())
        except NotFound:
            self._cache.gone(JOB, key, job.uid)
            return False
        self._cache.answered(JOB, stored)
        self._metrics.observe_status(job.status, status)
        logs.for_job(_log, job).info(
            "wrote status",
            extra={
                "action": "status",
                "phase": status.phase,
                "attempt": status.attempt,
                "restarts": status.restarts,
                "disruptions": status.disruptions,
            },
        )
        return True

    # --- deletes ---
    async def _delete(self, key: JobKey, job: Job, deletes: Iterable[Delete]) -> None:
        async def delete(doomed: Delete) -> bool:
            try:
                answer = await self._api.delete(doomed, job.namespace)
            except (NotFound, Conflict):  # gone, or the name is another object's by now
                self._cache.gone(doomed.kind, key, doomed.uid)
                return True
            # Without a resourceVersion it went away (its node was faster) while the API server was marking it.
            marked = answer.get("metadata", {})
            if answer.get("kind") == doomed.kind and {"deletionTimestamp", "resourceVersion"} <= marked.keys():
                self._cache.answered(doomed.kind, answer)  # ends in its own time; the watch will tell
            else:
                self._cache.gone(doomed.kind, key, doomed.uid)
            if doomed.kind == POD:
                self._metrics.pods_deleted.inc()
            _say(job, "deleted", doomed.kind, doomed.name)
            return True

        await self._side_by_side(delete, deletes)

    # --- creates ---
    async def _create(self, key: JobKey, job: Job, creates: Sequence[Manifest]) -> float:
        """Make what is wanted; Service and NetworkPolicy first, since the pods need them. Seconds until a new try.

        What was refused (quota, admission) is probably refused again. So after a refusal nothing is tried for a while,
        and then one create asks for all: one that was not refused yet, or else the one whose refusal is the oldest.
        """
        ages = self._cache.refusals(key)
        if creates and ages and (pause := names.RETRY_SECONDS - min(ages.values())) > 0:
            return pause
        wakes = [math.inf]

        async def create(manifest: Manifest) -> bool:
            wake = await self._create_one(key, job, manifest)
            wakes.append(wake)
            return wake == math.inf

        def order(manifest: Manifest) -> tuple[bool, float]:
            return manifest["kind"] == POD, -ages.get((manifest["kind"], manifest["metadata"]["name"]), math.inf)

        waiting = sorted(creates, key=order)
        if waiting and ages and not await create(waiting.pop(0)):
            return min(wakes)
        children = [manifest for manifest in waiting if manifest["kind"] != POD]
        if await self._side_by_side(create, children):
            await self._side_by_side(create, waiting[len(children) :])
        return min(wakes)

    async def _create_one(self, key: JobKey, job: Job, manifest: Manifest) -> float:
        """Infinity if the object is there now, else in how many seconds to look again."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            stored = await self._api.create(manifest)
        except AlreadyExists:
            return await self._who_has(key, job, kind, name)
        except Refused as refusal:
            self._cache.refused(key, job.uid, kind, name, refusal.message or refusal.reason)
            logs.for_job(_log, job).warning(
                "%s", refusal, extra={"action": "create", "kind": kind, "object": name, "reason": refusal.reason}
            )
            return 0.0  # the status must say so
        self._cache.answered(kind, stored)
        self._cache.free(key, kind, name)
        if kind == POD:
            self._metrics.pods_created.inc()
        _say(job, "created", kind, name)
        return math.inf

    async def _who_has(self, key: JobKey, job: Job, kind: str, name: str) -> float:
        """The name is taken: by what we know of by now, by a create whose answer was lost, or by somebody else."""
        if self._cache.explains(key, kind, name):  # the watch was faster, and has called for another look
            return math.inf
        there = await self._api.find(kind, job.namespace, name)
        if there is None:  # it went away in between
            return UNEXPLAINED_RETRY_SECONDS
        self._cache.answered(kind, there)
        if self._cache.explains(key, kind, name):
            return 0.0
        self._cache.in_the_way(key, job.uid, kind, name)
        logs.for_job(_log, job).warning(
            "the name of %s %s is taken by an object that is not this job's",
            kind,
            name,
            extra={"action": "create", "kind": kind, "object": name},
        )
        return 0.0

    async def _ask_again(self, key: JobKey, job: Job) -> bool:
        """Whether an object that stood in the way is gone by now. Asked from time to time; creates would be refused."""
        freed = False
        for kind, name in self._cache.doubtful(key):
            if await self._api.find(kind, job.namespace, name) is None:
                self._cache.free(key, kind, name)
                freed = True
            else:
                self._cache.in_the_way(key, job.uid, kind, name)
        return freed

    # --- how ---
    async def _side_by_side(self, do: Callable[[T], Awaitable[bool]], items: Iterable[T]) -> bool:
        """Do something with every item, some at a time, until one says False or raises; then begin no more.

        What has begun is always finished: to cancel a write would leave open whether it was done. Raises the first
        error.
        """
        waiting = deque(items)
        going_on = True
        failures: list[ApiError] = []

        async def lane() -> None:
            nonlocal going_on
            while waiting and going_on and not self._stopping:
                try:
                    going_on = await do(waiting.popleft()) and going_on
                except ApiError as error:
                    failures.append(error)
                    going_on = False

        await asyncio.gather(*(lane() for _ in range(min(WRITES_AT_ONCE, len(waiting)))))
        if failures:
            raise failures[0]
        return going_on and not waiting

    # --- events ---
    async def _tell(self, job: Job, plan: Plan) -> None:
        """Events are for people: one that cannot be written is logged and no more."""
        for event in plan.events:
            try:
                await self._api.create(event_manifest(job, event, self._around.now(), self._around.reporter))
            except ApiError as error:
                logs.for_job(_log, job).warning("%s", error, extra={"action": "event", "reason": event.reason})


def _say(job: Job, done: str, kind: str, name: str) -> None:
    logs.for_job(_log, job).info("%s %s %s", done, kind, name, extra={"action": done, "kind": kind, "object": name})
