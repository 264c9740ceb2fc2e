"""What the operator measures of itself, for Prometheus. Label values are from small fixed sets: never names."""

from __future__ import annotations

import platform
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.controller import version
from disttrain.controller.api_errors import Target
from disttrain.core.model import Job

SUCCESS: Final = "success"
CONFLICT: Final = "conflict"
ERROR: Final = "error"

_RESTART_CAUSES: Final = frozenset({names.REASON_ROLE_FAILED, names.REASON_DISRUPTED, names.REASON_RESIZED})
_PHASES: Final = frozenset(
    {names.PHASE_PENDING, names.RUNNING, names.RESTARTING, names.SUSPENDED, names.SUCCEEDED, names.FAILED}
)
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series of its own for the birth of every series: twice the cost, no use to us
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        build = Gauge(
            "disttrain_build_info",
            "Always 1; the labels say what runs.",
            ("version", "python_version"),
            registry=self.registry,
        )
        build.labels(version.VERSION, platform.python_version()).set(1)
        self.reconcile_seconds = Histogram(
            "disttrain_reconcile_duration_seconds",
            "Time to look at one job and do what is to be done.",
            ("outcome",),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.reconciles = Counter(
            "disttrain_reconciles", "Looks at a job, by how they ended.", ("outcome",), registry=self.registry
        )
        self.api_requests = Counter(
            "disttrain_api_requests",
            "Requests of the operator's own client to the API server; code 0: no answer.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self.api_seconds = Histogram(
            "disttrain_api_request_duration_seconds",
            "Time to an answer of the API server.",
            ("verb", "resource"),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.restarts = Counter(
            "disttrain_restarts",
            "Restarts of jobs, by the reason of the condition Restarting.",
            ("cause",),
            registry=self.registry,
        )
        self.pods_created = Counter("disttrain_pods_created", "Pods created.", registry=self.registry)
        self.pods_deleted = Counter("disttrain_pods_deleted", "Pods deleted.", registry=self.registry)

    def observe_request(self, target: Target, code: int, seconds: float) -> None:
        """Count one request to the API server."""
        self.api_requests.labels(target.verb, target.resource.plural, str(code)).inc()
        self.api_seconds.labels(target.verb, target.resource.plural).observe(seconds)

    def observe_status(self, before: JobStatus, after: JobStatus) -> None:
        """Count the restart, if this status write is one."""
        restarting = after.condition(names.RESTARTING)
        if 0 < before.attempt < after.attempt and restarting is not None and restarting.status == "True":
            cause = restarting.reason if restarting.reason in _RESTART_CAUSES else "Other"
            self.restarts.labels(cause).inc()

    def observe_reconcile(self, outcome: str, seconds: float) -> None:
        """Count one look at a job."""
        self.reconciles.labels(outcome).inc()
        self.reconcile_seconds.labels(outcome).observe(seconds)


class LiveState(Collector):
    """What is read at the moment of the scrape instead of being counted: the queue, the watches, the jobs."""

    def __init__(
        self,
        queue: Callable[[], tuple[int, float]],
        watches: Callable[[], Iterable[tuple[str, float]]],
        jobs: Callable[[], Iterable[Job]],
    ) -> None:
        self._queue = queue
        self._watches = watches
        self._jobs = jobs

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        depth, age = self._queue()
        yield GaugeMetricFamily("disttrain_queue_depth", "Jobs that wait to be looked at.", value=depth)
        yield GaugeMetricFamily(
            "disttrain_queue_oldest_age_seconds", "How long the first of them has waited.", value=age
        )
        watches = GaugeMetricFamily(
            "disttrain_watch_age_seconds",
            "Since the API server last said anything on a watch (events, bookmarks); the oldest of the namespaces.",
            labels=("resource",),
        )
        oldest: dict[str, float] = {}
        for resource, silence in self._watches():
            oldest[resource] = max(silence, oldest.get(resource, 0.0))
        for resource, silence in oldest.items():
            watches.add_metric((resource,), silence)
        yield watches
        jobs = GaugeMetricFamily("disttrain_jobs", "Jobs, by phase and strategy.", labels=("phase", "strategy"))
        tally = Tally((_phase(job), job.spec.strategy if job.spec else "Invalid") for job in self._jobs())
        for labels, count in tally.items():
            jobs.add_metric(labels, count)
        yield jobs

    def describe(self) -> list[GaugeMetricFamily]:
        """Empty: the registry would otherwise collect once at registration, before there is anything to read."""
        return []


def _phase(job: Job) -> str:
    """A status can be edited by hand: a phase of nobody's knowledge must not make a new series."""
    phase = job.status.phase or names.PHASE_PENDING
    return phase if phase in _PHASES else "Other"
