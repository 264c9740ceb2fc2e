"""A job and its world seen through the job's status: which pod is whose, which still counts, what has completed.

Everything here is a question with one answer; nothing decides. All of it is linear in the number of pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final, Literal, cast

from disttrain import names
from disttrain.api.spec import JobSpec
from disttrain.api.status import JobStatus
from disttrain.core import indexes
from disttrain.core.model import Child, Job, Observed, Pod, Settings

Slot = tuple[names.Role, int]
"""The place of one pod: role and index. A slot's pod has one name, so there is at most one at a time."""

ChildKind = Literal["Service", "NetworkPolicy"]

_GANGS: Final = frozenset({names.MIRRORED, names.MULTI_WORKER_MIRRORED})


def has_succeeded(pod: Pod) -> bool:
    """The program ended by itself with 0. A 0 after somebody asked the pod to go says only that it obeyed."""
    return pod.exit is not None and pod.exit.code == 0 and pod.disruption is None


def is_running(pod: Pod) -> bool:
    """Whether the pod runs or may yet run, so that it holds resources: not only the trainer's container counts."""
    return pod.exit is None or pod.sidecars_running


def pod_name(job_name: str, role: names.Role, index: int) -> str:
    """The one name of a slot's pod."""
    return f"{job_name}-{role}-{index}"


@dataclass(frozen=True)
class View:
    """What is known of one job at one moment. `job.spec` may be None only where the job is invalid and being ended."""

    job: Job
    observed: Observed
    now: datetime
    settings: Settings

    def with_status(self, status: JobStatus) -> View:
        """The same world, seen through another status."""
        return replace(self, job=replace(self.job, status=status))

    @property
    def status(self) -> JobStatus:
        """What the world is seen through."""
        return self.job.status

    @property
    def spec(self) -> JobSpec:
        """What is wanted. Raises ValueError for an invalid job, which the plan ends before it asks."""
        if self.job.spec is None:
            raise ValueError(f"job {self.job.namespace}/{self.job.name} has no valid spec: {self.job.errors}")
        return self.job.spec

    # --- slots ---

    @cached_property
    def roles(self) -> dict[names.Role, int]:
        """The job's roles with their wanted number of pods, in the order of `names.ROLES`."""
        if self.job.spec is None:
            return {}
        return {role: self.job.spec.replicas(role) for role in self.job.spec.roles_in_use()}

    @cached_property
    def cluster_roles(self) -> tuple[names.Role, ...]:
        """The roles that train. The evaluator is none of them: it never counts and never decides."""
        return tuple(role for role in self.roles if role != names.EVALUATOR)

    def slots(self, *roles: names.Role) -> Iterator[Slot]:
        """Every wanted slot of the roles given, in order."""
        return ((role, index) for role in roles for index in range(self.roles.get(role, 0)))

    @property
    def leader(self) -> Slot:
        """Who saves and exports and ends the job: the chief, or worker 0 where there is none."""
        return (names.CHIEF, 0) if self.roles.get(names.CHIEF) else (names.WORKER, 0)

    @property
    def is_gang(self) -> bool:
        """Whether TensorFlow needs all cluster pods restarted when one fails (collectives), not only some."""
        return self.spec.strategy in _GANGS

    # --- pods ---

    @cached_property
    def own(self) -> tuple[Pod, ...]:
        """The pods of this job, not those of a predecessor with the same name."""
        return tuple(pod for pod in self.observed.pods if pod.owner_uid == self.job.uid)

    @cached_property
    def by_name(self) -> dict[str, Pod]:
        """Every pod in the way of a name, whoever owns it."""
        return {pod.name: pod for pod in self.observed.pods}

    @cached_property
    def accounted(self) -> frozenset[str]:
        """Uids of pods whose failure, or whose part in one, is in the status already."""
        return frozenset(self.status.accounted_pods)

    def is_doomed(self, pod: Pod) -> bool:
        """Whether the pod is accounted for: never counted again, to be deleted, then to be replaced if still wanted.

        | role                                      | doomed if                         |
        |-------------------------------------------|-----------------------------------|
        | any                                       | its uid is in accountedPods       |
        | any                                       | its index is not wanted any more  |
        | Mirrored, MultiWorkerMirrored: chief,     | it is of an earlier attempt than  |
        | worker                                    | the job's                         |
        """
        if pod.uid in self.accounted or pod.index >= self.roles.get(role_of(pod), 0):
            return True
        return pod.role != names.EVALUATOR and self.is_gang and pod.attempt < self.status.attempt

    @cached_property
    def doomed(self) -> tuple[Pod, ...]:
        """The pods that are accounted for and still there."""
        return tuple(pod for pod in self.own if self.is_doomed(pod))

    @cached_property
    def current(self) -> dict[Slot, Pod]:
        """The pod that counts in each slot."""
        return {(role_of(pod), pod.index): pod for pod in self.own if not self.is_doomed(pod)}

    @cached_property
    def own_by_role(self) -> defaultdict[names.Role, list[Pod]]:
        """This job's pods, doomed or not."""
        grouped: defaultdict[names.Role, list[Pod]] = defaultdict(list)
        for pod in self.own:
            grouped[role_of(pod)].append(pod)
        return grouped

    def stored_completed(self, role: names.Role) -> frozenset[int]:
        """Indexes the status already says have completed."""
        return self._stored_completed.get(role, frozenset())

    @cached_property
    def _stored_completed(self) -> dict[names.Role, frozenset[int]]:
        return {
            role: indexes.parse(self.status.role(role).completed_indexes, replicas)
            for role, replicas in self.roles.items()
        }

    @cached_property
    def completed(self) -> dict[names.Role, frozenset[int]]:
        """Indexes whose program exited 0: those stored and those seen now."""
        seen: defaultdict[names.Role, set[int]] = defaultdict(set)
        for (role, index), pod in self.current.items():
            if has_succeeded(pod):
                seen[role].add(index)
        return {role: self.stored_completed(role) | seen[role] for role in self.roles}

    def is_completed(self, slot: Slot) -> bool:
        """Whether the slot's program exited 0: it is never run again."""
        return slot[1] in self.completed.get(slot[0], ())

    # --- Service and NetworkPolicy ---

    @cached_property
    def child_kinds(self) -> tuple[ChildKind, ...]:
        """What the job needs beside its pods."""
        return ("Service",) if self.spec.network.policy == "None" else ("Service", "NetworkPolicy")

    def child(self, kind: ChildKind) -> Child | None:
        """The object of this kind that has the job's name, whoever owns it."""
        return next((c for c in self.observed.children if c.kind == kind and c.name == self.job.name), None)

    @cached_property
    def own_children(self) -> tuple[Child, ...]:
        """This job's Service and NetworkPolicy."""
        return tuple(child for child in self.observed.children if child.owner_uid == self.job.uid)


def role_of(pod: Pod) -> names.Role:
    """The pod's role as a role of ours; one we do not know has no slots, so nothing is ever decided by it."""
    return cast("names.Role", pod.role)
