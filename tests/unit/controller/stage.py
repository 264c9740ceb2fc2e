"""A reconciler whose plan the test writes, with everything it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from disttrain.api.status import JobStatus
from disttrain.controller.api_errors import ApiError, Target
from disttrain.controller.cache import Cache
from disttrain.controller.keys import POD, RESOURCES, SERVICE, JobKey
from disttrain.controller.metrics import Metrics
from disttrain.controller.reconcile import Reconciler, Surroundings
from disttrain.core.model import Delete, Event, Job, Manifest, Observed, Plan, Settings
from tests.unit.controller.fakes import KEY, NOW, FakeApi, FakeIndexes, FakeTimers, owned, pod

SETTINGS = Settings(trainer_image="trainer:1", agent_image="agent:1")
STATUS = JobStatus(attempt=1, phase="Pending")


@dataclass
class Stage:
    """A reconciler whose plan the test writes."""

    timers: FakeTimers = field(default_factory=FakeTimers)
    api: FakeApi = field(default_factory=FakeApi)
    metrics: Metrics = field(default_factory=Metrics)
    plans: list[Plan] = field(default_factory=list)
    seen: list[tuple[Job, Observed]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = Cache(self.timers.time)
        self.watch = FakeIndexes(self.cache)
        around = Surroundings(SETTINGS, "operator-0", now=lambda: NOW, monotonic=self.timers.time)
        self.reconciler = Reconciler(self.cache, self.api, self._plan, around, self.metrics)

    def _plan(self, job: Job, observed: Observed, now: datetime, settings: Settings) -> Plan:
        self.seen.append((job, observed))
        return self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]

    async def look(self, *plans: Plan) -> float | None:
        if plans:
            self.plans = list(plans)
        return await self.reconciler.reconcile(KEY)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def fails(kind: type[ApiError], verb: str = "create", code: int = 409, message: str = "no") -> ApiError:
    return kind(Target(verb, RESOURCES[POD], KEY.namespace, "x"), code, kind.__name__, message)


def name_of(manifest: Manifest) -> tuple[JobKey, str, str]:
    return KEY, manifest["kind"], manifest["metadata"]["name"]


def worker(index: int) -> str:
    return f"{KEY.name}-worker-{index}"


FULL = Plan(
    status=STATUS,
    urgent=True,
    deletes=(Delete("Pod", "recsys-worker-9", "uid-9"),),
    creates=(pod(0), owned(SERVICE, KEY.name, 1, "s")),
    events=(Event("Normal", "Created", "Accepted"),),
)
