"""A job's whole life under everything that can go wrong, driven at random: the invariants of an honest operator.

The operator dies between any two writes, works from stale caches, holds writes back; pods start, end, are evicted,
deleted and vanish; people suspend, resume, scale, delete and create anew. After every step these invariants hold:

I1  at most one pod a replica, and a gang never has new members beside old ones
I2  everything made is owned by the job
I3  Succeeded and Failed are for ever, and never both
I4  Succeeded only if the deciding replicas ended with 0 by themselves, in the current attempt
I5  restarts never decrease and never exceed the failures that happened; a gang failing together is one
I6  observedGeneration never runs ahead or back
I8  nothing of another job is touched
I9  at rest, all pods that train were told of the same cluster

and from any state: the operator comes to rest (an unchanged world needs no write), and when nothing goes wrong any more
the job ends as its rules say, with nothing left running.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from disttrain import names
from disttrain.core import indexes
from disttrain.core.model import Manifest, Plan
from tests.properties.cluster import (
    Cluster,
    Snapshot,
    attempt_of,
    in_role,
    index_of,
    is_deleting,
    new_job,
    role_of,
    uid_of,
)
from tests.properties.conftest import PROFILE
from tests.properties.operated import GANG_ROLES, OperatedCluster

PATIENCE = 60  # rounds of operator and kubelet until a job without faults runs, or has ended

STRATEGIES: dict[str, dict[str, Any]] = {
    "Mirrored": {"strategy": "Mirrored", "roles": {"worker": {}}},
    "gang with a chief": {"strategy": "MultiWorkerMirrored", "roles": {"chief": {}, "worker": {"replicas": 2}}},
    "gang, all workers": {
        "strategy": "MultiWorkerMirrored",
        "roles": {"worker": {"replicas": 3}, "evaluator": {}},
        "successPolicy": {"type": "AllWorkers"},
    },
    "parameter servers": {
        "strategy": "ParameterServer",
        "roles": {"chief": {}, "worker": {"replicas": 2}, "ps": {"replicas": 2}, "evaluator": {}},
    },
}
CODES = [0, 0, 1, 42, 75, 137]
SLEEPS = "sleeps"
# How the operator reacts to what happened: fully, not yet, or it dies after so many writes.
REACTIONS = [None, None, None, None, SLEEPS, SLEEPS, 0, 1, 2, 3]
EVENTS = [
    *("kubelet_catches_up", "kubelet_catches_up", "pod_starts", "pod_is_gone"),
    *("programs_end", "programs_end", "pod_is_evicted", "pod_is_deleted", "pod_vanishes", "pod_obeys"),
    *("spec_is_suspended", "spec_is_resumed", "spec_is_resumed", "spec_is_scaled", "job_is_recreated"),
    *("child_is_deleted", "time_passes"),
    *("operator_works", "operator_holds_back", "operator_lags", "operator_lags", "operator_was_paused"),
    "one_failure_at_rest_is_one_restart",
]


class JobLife(OperatedCluster):
    """The world and its operator, a step at a time."""

    kind: ClassVar[str]

    @initialize(
        begin=st.sampled_from(["running", "running", "running", "created", "suspended"]),
        limit=st.sampled_from([50, 3, 1, 0]),
        policy=st.sampled_from(["Running", "Running", "All"]),
    )
    def create_job(self, begin, limit, policy):
        suspend = begin == "suspended"
        spec = {**STRATEGIES[self.kind], "suspend": suspend, "backoffLimit": limit, "cleanPodPolicy": policy}
        self.cluster = Cluster(new_job(spec))
        self.history = [self.cluster.snapshot()]
        self.basis = 0  # the oldest pods a cache may show: those the last status was written from
        self._begin_anew()
        if begin == "running":
            self._run_until(self._is_running)

    def _goes_with(self, lost: Manifest, other: Manifest) -> bool:
        """Whether a pod is restarted when another one is lost: the table of `policies.restart`, written again."""
        if self._is_gang():
            return role_of(other) in GANG_ROLES
        return other is lost or (role_of(lost), role_of(other)) == (names.PS, names.CHIEF)

    def _begin_anew(self):
        self.ended: str | None = None
        self.restarts = 0
        self.generation = 0

    @rule(
        event=st.sampled_from(EVENTS),
        which=st.integers(0, 9),
        more=st.integers(0, 9),
        code=st.sampled_from(CODES),
        reaction=st.sampled_from(REACTIONS),
    )
    def happens(self, event, which, more, code, reaction):
        """One rule for all: hypothesis leaves rules out at random, and a life without failures is dull."""
        getattr(self, event)(which, more, code)
        self._tick()
        if reaction != SLEEPS and not event.startswith("operator"):
            self._carry_out(self.cluster.snapshot(), writes=reaction)

    # --- the kubelet ---

    def kubelet_catches_up(self, *_):
        self.cluster.collect_garbage()
        for pod in self.cluster.deleting():
            self.cluster.remove(pod)
        for pod in self.cluster.pending():
            self.cluster.start(pod)

    def pod_starts(self, which, *_):
        self._to_one(self.cluster.pending(), which, self.cluster.start)

    def pod_is_gone(self, which, *_):
        self._to_one(self.cluster.deleting(), which, self.cluster.remove)

    def programs_end(self, which, more, code):
        """One or some in the same instant."""
        for offset in range(1 + max(0, more - 6)):
            ends = CODES[(CODES.index(code) + offset) % len(CODES)]
            self._to_one(self.cluster.running(), which + offset, lambda pod, ends=ends: self.cluster.exit(pod, ends))

    # --- what goes wrong ---

    def pod_is_evicted(self, which, *_):
        staying = [pod for pod in self.cluster.running() if not is_deleting(pod)]
        self._to_one(staying, which, self.cluster.evict)

    def pod_is_deleted(self, which, *_):
        self._to_one(list(self.cluster.pods.values()), which, self.cluster.delete_by_hand)

    def pod_obeys(self, which, *_):
        """It is deleted by hand and exits 0 because of that, before anybody looks."""
        staying = [pod for pod in self.cluster.running() if not is_deleting(pod)]
        self._to_one(staying, which, self.cluster.delete_by_hand)
        self._tick()
        self._to_one(staying, which, lambda pod: self.cluster.exit(pod, 0))

    def pod_vanishes(self, which, *_):
        self._to_one(list(self.cluster.pods.values()), which, self.cluster.vanish)

    def child_is_deleted(self, which, *_):
        self.cluster.children.pop(["Service", "NetworkPolicy"][which % 2], None)

    # --- people and time ---

    def spec_is_suspended(self, *_):
        self.cluster.change_spec(suspend=True)

    def spec_is_resumed(self, *_):
        if self.cluster.job["spec"]["suspend"]:
            self.cluster.change_spec(suspend=False)

    def spec_is_scaled(self, which, *_):
        spec = self.cluster.job["spec"]
        if spec["strategy"] != names.MIRRORED:
            self.cluster.change_spec(roles={**spec["roles"], "worker": {"replicas": 1 + which % 3}})

    def job_is_recreated(self, *_):
        self.cluster.recreate_job()
        self._begin_anew()

    def time_passes(self, which, *_):
        self._tick([10, 60, 400][which % 3])

    # --- the operator ---

    def operator_works(self, *_):
        self._carry_out(self.cluster.snapshot())

    def operator_holds_back(self, *_):
        """Counters alone may wait for the next write."""
        self._carry_out(self.cluster.snapshot(), hold=True)

    def operator_lags(self, which, more, _):
        """Its watch of the pods is late, yet never behind what the stored status was computed from."""
        old = self.history[max(self.basis, len(self.history) - 1 - more)]
        self._carry_out(Snapshot(self.cluster.snapshot().job, old.observed), writes=which)

    def operator_was_paused(self, which, *_):
        """It lost its lease and does not know: job and pods are old, its status write meets a conflict."""
        self._carry_out(self.history[max(0, len(self.history) - 2 - 2 * which)])

    def one_failure_at_rest_is_one_restart(self, which, _, code):
        self._settle()
        candidates = [pod for pod in self._current(self.cluster.running()) if role_of(pod) != names.EVALUATOR]
        if code == 0 or not candidates or not self._is_active():
            return
        before = self.cluster.status()
        pod = candidates[which % len(candidates)]
        others = {uid_of(pod): pod for pod in self._current(list(self.cluster.pods.values()))}
        self.cluster.exit(pod, code)
        self._tick()
        self._settle()
        after = self.cluster.status()
        staying = {uid_of(pod) for pod in self.cluster.pods.values() if not is_deleting(pod)}
        if not self._has_ended():
            assert {uid for uid, other in others.items() if self._goes_with(pod, other)} == others.keys() - staying
        counted, free = after.restarts - before.restarts, after.disruptions - before.disruptions
        assert (counted, free) == ((0, 1) if code == 42 else (1, 0))

    # --- invariants ---

    @invariant()
    def nothing_is_wrong(self):
        self.everything_is_owned()
        self.an_end_is_for_ever()
        self.failures_are_counted_once()
        self.generations_are_honest()
        self.completions_are_true()

    def completions_are_true(self):
        """Of a gang only those of the current attempt count."""
        status = self.cluster.status()
        for role, part in status.roles.items():
            is_member = self._is_gang() and role != names.EVALUATOR
            done = {
                index_of(pod)
                for pod in in_role(self.cluster.completed.values(), role)
                if not is_member or attempt_of(pod) == status.attempt
            }
            assert indexes.parse(part.completed_indexes, 100) <= done

    def everything_is_owned(self):  # I2
        for body in self.cluster.made:
            (owner,) = body["metadata"]["ownerReferences"]
            assert (owner["name"], owner["controller"], owner["kind"]) == ("recsys", True, names.KIND)
            assert owner["uid"].startswith("job-")
            assert "blockOwnerDeletion" not in owner
        self.cluster.made.clear()

    def an_end_is_for_ever(self):  # I3, I4
        status = self.cluster.status()
        ends = [end for end in (names.SUCCEEDED, names.FAILED) if status.is_true(end)]
        assert len(ends) <= 1
        if self.ended is not None:
            assert ends == [self.ended]
        elif ends == [names.SUCCEEDED]:
            self._assert_earned(status.attempt)
        elif ends == [names.FAILED]:
            assert status.restarts > self.cluster.job["spec"]["backoffLimit"]
        self.ended = ends[0] if ends else None

    def failures_are_counted_once(self):  # I5
        status = self.cluster.status()
        assert status.restarts >= self.restarts
        self.restarts = status.restarts
        faults = [fault for fault in self.cluster.faults if fault.role != names.EVALUATOR]
        if self._is_gang():
            assert status.restarts <= len({fault.attempt for fault in faults if fault.counts})
            assert status.restarts + status.disruptions <= len({fault.attempt for fault in faults})
        else:
            assert status.restarts <= len({fault.uid for fault in faults if fault.counts})
            assert status.restarts + status.disruptions <= len({fault.uid for fault in faults})

    def generations_are_honest(self):  # I6
        seen = self.cluster.status().observed_generation or 0
        assert self.generation <= seen <= self.cluster.job["metadata"]["generation"]
        self.generation = seen

    def _assert_earned(self, attempt: int) -> None:
        """The deciding replicas of this attempt ended with 0 by themselves."""
        spec = self.cluster.job["spec"]
        done = [pod for pod in self.cluster.completed.values() if not self._is_gang() or attempt_of(pod) == attempt]
        places = {(role_of(pod), int(pod["metadata"]["labels"][names.LABEL_INDEX])) for pod in done}
        if spec.get("successPolicy", {}).get("type") == "AllWorkers":
            assert {(names.WORKER, index) for index in range(spec["roles"]["worker"]["replicas"])} <= places
        else:
            assert ((names.CHIEF, 0) if "chief" in spec["roles"] else (names.WORKER, 0)) in places

    # --- the end of every story ---

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        if self.cluster.job["spec"]["suspend"]:
            self.cluster.change_spec(suspend=False)
        self._run_until(self._is_running)
        if not self._has_ended():
            for pod in in_role(self._current(self.cluster.running()), names.CHIEF, names.WORKER):
                self.cluster.exit(pod, 0)
            self._run_until(lambda: self.cluster.status().is_true(names.SUCCEEDED))
        self._run_until(lambda: not self._left_running())
        assert self.cluster.children == {}
        self.nothing_is_wrong()
        self.cluster.delete_job()
        assert self._plan(self.cluster.snapshot()) == Plan()

    def _run_until(self, done):
        """Operator and kubelet take turns without faults."""
        for _ in range(PATIENCE):
            wake_at = self._settle()
            if done() or (self._has_ended() and not self._left_running()):
                return
            self.kubelet_catches_up()
            self._tick()
            if wake_at is not None and wake_at > self.cluster.now:
                self.cluster.now = wake_at
        raise AssertionError(f"the job does not get on: {self.cluster.status().to_manifest()}")


class Mirrored(JobLife):
    kind = "Mirrored"


class GangWithAChief(JobLife):
    kind = "gang with a chief"


class GangOfWorkers(JobLife):
    kind = "gang, all workers"


class ParameterServers(JobLife):
    kind = "parameter servers"


TestMirrored = Mirrored.TestCase
TestMirrored.settings = PROFILE
TestGangWithAChief = GangWithAChief.TestCase
TestGangWithAChief.settings = PROFILE
TestGangOfWorkers = GangOfWorkers.TestCase
TestGangOfWorkers.settings = PROFILE
TestParameterServers = ParameterServers.TestCase
TestParameterServers.settings = PROFILE
