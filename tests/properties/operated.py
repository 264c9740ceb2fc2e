"""The operator's shell and the questions that a model of a job's life asks of its world; no events, no invariants."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from disttrain import names
from disttrain.core.model import Job, Manifest, Observed, Plan, Settings
from disttrain.core.plan import plan
from tests.properties.cluster import (
    Cluster,
    ConflictError,
    Snapshot,
    attempt_of,
    in_role,
    is_deleting,
    role_of,
    told_cluster,
    uid_of,
)

SETTINGS = Settings(trainer_image="registry.test/trainer:1", agent_image="registry.test/agent:1")
FIXPOINT = 8  # plans until an unchanged world needs none
GANG_ROLES = (names.CHIEF, names.WORKER)


class OperatedCluster(RuleBasedStateMachine):
    """A cluster and its operator. A subclass adds what happens and what must hold."""

    cluster: Cluster
    history: list[Snapshot]
    basis: int

    # --- the shell ---

    def _plan(self, snapshot: Snapshot) -> Plan:
        job: Job = snapshot.parsed()
        assert not job.errors, job.errors
        return plan(job, snapshot.observed, self.cluster.now, SETTINGS)

    def _carry_out(self, snapshot: Snapshot, writes: int | None = None, hold: bool = False) -> Plan:
        """As the shells do it: status first, and nothing else if that fails; broken off after some writes."""
        decided = self._plan(snapshot)
        is_fresh = self._is_fresh(snapshot)
        left = writes if writes is not None else 10**6
        if hold and decided.status is not None and not (decided.urgent or decided.deletes or decided.creates):
            return decided
        steps: list[Any] = [decided.status] if decided.status is not None else []
        steps += [*decided.deletes, *decided.creates]
        for step in steps[:left]:
            if step is decided.status:
                try:
                    self.cluster.write_status(step, snapshot.resource_version)
                except ConflictError:
                    break
                self.basis = self._age_of(snapshot.observed)
            elif isinstance(step, dict):
                assert not is_fresh or not self._would_meet_old_members(step)  # I1
                self.cluster.create(step, by_mistake=snapshot.resource_version != self._resource_version())
            else:
                self.cluster.delete(step)
        self._tick()
        return decided

    def _is_fresh(self, snapshot: Snapshot) -> bool:
        return snapshot == self.cluster.snapshot()

    def _would_meet_old_members(self, manifest: Manifest) -> bool:
        """Whether a new member of a gang would find one of an earlier attempt."""
        if manifest["kind"] != "Pod" or not self._is_gang() or role_of(manifest) not in GANG_ROLES:
            return False
        return any(attempt_of(pod) < attempt_of(manifest) for pod in self._members())

    def _members(self) -> list[Manifest]:
        return [pod for pod in in_role(self.cluster.pods.values(), *GANG_ROLES) if self.cluster.is_own(pod)]

    def _age_of(self, observed: Observed) -> int:
        known = (index for index in reversed(range(len(self.history))) if self.history[index].observed is observed)
        return next(known, len(self.history))

    def _settle(self):
        """Plans until none is needed. Gives back when the last one wants to be woken."""
        for _ in range(FIXPOINT):
            decided = self._carry_out(self.cluster.snapshot())
            if decided.status is None and not decided.deletes and not decided.creates:
                assert decided.events == ()
                self._assert_no_mix()
                return decided.wake_at
        raise AssertionError(f"the operator does not come to rest: {decided}")

    def _assert_no_mix(self) -> None:  # I1, I9
        """At rest a gang's pods that are to stay are of one attempt, and all pods were told of the same cluster."""
        staying = [
            pod
            for pod in self.cluster.pods.values()
            if self.cluster.is_own(pod)
            and not is_deleting(pod)
            and role_of(pod) != names.EVALUATOR
            and uid_of(pod) not in self.cluster.mistakes
        ]
        if not self._has_ended():
            assert len({told_cluster(pod) for pod in staying}) <= 1
            assert not self._is_gang() or len({attempt_of(pod) for pod in staying}) <= 1

    # --- what is what ---

    def _tick(self, seconds: int = 1) -> None:
        self.cluster.now += timedelta(seconds=seconds)
        self.history.append(self.cluster.snapshot())

    def _to_one(self, pods: list[Manifest], which: int, do) -> None:
        if pods:
            do(pods[which % len(pods)])

    def _resource_version(self) -> int:
        version: int = self.cluster.job["metadata"]["resourceVersion"]
        return version

    def _is_gang(self) -> bool:
        return self.cluster.job["spec"]["strategy"] != names.PARAMETER_SERVER

    def _is_active(self) -> bool:
        status = self.cluster.status()
        return not self._has_ended() and not status.is_true(names.SUSPENDED) and not self.cluster.job["spec"]["suspend"]

    def _has_ended(self) -> bool:
        status = self.cluster.status()
        return status.is_true(names.SUCCEEDED) or status.is_true(names.FAILED)

    def _is_running(self) -> bool:
        return self.cluster.status().phase == names.RUNNING

    def _left_running(self) -> bool:
        return any(pod["status"]["phase"] in ("Pending", "Running") for pod in self.cluster.pods.values())

    def _current(self, pods: list[Manifest]) -> list[Manifest]:
        """Those that are not accounted for, by the stored status."""
        status = self.cluster.status()
        return [
            pod
            for pod in pods
            if not is_deleting(pod)
            and self.cluster.is_own(pod)
            and uid_of(pod) not in status.accounted_pods
            and not (self._is_gang() and role_of(pod) in GANG_ROLES and attempt_of(pod) < status.attempt)
        ]
