"""The loop of `disttrain run`: observe, ask the core, do what it says, until the job is over.

It stands where the operator's controller stands in a cluster, and decides as little. The one thing of its own: a stop
(Ctrl-C) is `spec.suspend: true`, so that the core stops the replicas as it suspends a job, and resumes it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.core.model import Event, Job, Plan, Settings
from disttrain.core.plan import plan
from disttrain.local.node import Clock, Node
from disttrain.local.snapshot import Snapshot, replicas, verdict

SETTINGS: Final = Settings(trainer_image="local", agent_image="local", restart_backoff_seconds=1)
"""A laptop has no image to pull and no node to lose: a second's wait is enough to see what failed."""

_SHORTEST_WAIT: Final = 0.05  # seconds; times in a status are whole seconds, so a wake-up may come a little early


@dataclass(frozen=True)
class Reactions:
    """Who is told: `written` of each new status before anything follows from it, `seen` of every change after it."""

    written: Callable[[Job], None]
    seen: Callable[[Snapshot, tuple[Event, ...]], None]


class Executor:
    """Runs one job on one node."""

    def __init__(self, job: Job, node: Node, reactions: Reactions, clock: Clock) -> None:
        self.job = job
        self._node = node
        self._reactions = reactions
        self._clock = clock
        self._started = clock()
        self._stopping = False
        self._forced = False

    def stop(self) -> None:
        """First call: stop all replicas so that they save. Second: kill them. Safe to call from a signal handler."""
        if self._stopping:
            self._forced = True
            self._node.kill_all()
        elif self.job.spec is not None:
            self._stopping = True
            suspended = self.job.spec.model_copy(update={"suspend": True})
            self.job = replace(self.job, spec=suspended, generation=self.job.generation + 1)
        self._node.changed.set()

    async def run(self) -> JobStatus:
        """Until the job is over, or stopped, and no process of it is left. Returns its last status."""
        while True:
            self._node.changed.clear()
            following = plan(self.job, self._node.observed(), self._clock(), SETTINGS)
            await self._carry_out(following)
            self._reactions.seen(self.snapshot(), following.events)
            if self._is_over(following):
                return self.job.status
            await self._next(following.wake_at)

    def snapshot(self) -> Snapshot:
        """The job as it stands."""
        spec = self.job.spec
        pods = {slot: (one.pod, one.last_report) for slot, one in self._node.latest.items()}
        return Snapshot(
            job=self.job.name,
            strategy=spec.strategy if spec else "",
            backoff_limit=spec.backoff_limit if spec else 0,
            status=self.job.status,
            replicas=replicas(self.job, pods),
            started=self._started,
            time=self._clock(),
        )

    async def _carry_out(self, following: Plan) -> None:
        """In the order a plan asks for: status, deletes, creates."""
        if following.status is not None:
            self.job = replace(self.job, status=following.status)
            self._reactions.written(self.job)
            self._node.changed.set()  # as a watch would: what follows from the new status may be for the next plan
        for order in following.deletes:
            self._node.delete(order)
        for manifest in following.creates:
            if self._stopping:
                break  # the plan was made before the stop; the next one will not create
            await self._node.create(manifest)
        if self._forced:
            self._node.kill_all()
        elif self._stopping and verdict(self.job.status) is not None:
            self._node.stop_all()  # a finished job is not suspended; what lingers is its evaluator

    def _is_over(self, following: Plan) -> bool:
        """Whether nothing runs any more and nothing will. Raises RuntimeError rather than wait for ever."""
        if following.creates or following.deletes or next(self._node.running(), None) is not None:
            return False
        if verdict(self.job.status) is not None:
            return True
        if self._stopping:
            return self.job.status.is_true(names.SUSPENDED) and not self._node.observed().pods
        if following.wake_at is None and not self._node.changed.is_set():
            raise RuntimeError(f"nothing of job {self.job.name} runs and nothing is planned")
        return False

    async def _next(self, wake_at: datetime | None) -> None:
        """Wait for a change, at the longest until the plan's own time."""
        delay = None if wake_at is None else max(_SHORTEST_WAIT, (wake_at - self._clock()).total_seconds())
        try:
            async with asyncio.timeout(delay):
                await self._node.changed.wait()
        except TimeoutError:
            return
