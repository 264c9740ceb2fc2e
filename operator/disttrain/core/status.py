"""The rest of the status, which follows from the world alone: counts, readiness, conditions, phase.

| condition  | True when                                                                                            |
|------------|------------------------------------------------------------------------------------------------------|
| PodsReady  | every pod but the evaluator's is ready or has completed; else the message names the first culprits    |
| Running    | PodsReady was True in this attempt and nothing was lost since: a readiness probe that fails for a     |
|            | moment does not make a running job pending                                                           |
| Restarting | from a restart until PodsReady is True again                                                         |
| Suspended  | see `policies.suspend`; absent until the job is first suspended                                       |
| Succeeded, | see `policies.success`, `policies.restart`; absent until then, and never False                        |
| Failed     |                                                                                                      |

phase is the first that is True of: Succeeded, Failed, Suspended, Restarting, Running; else Pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from disttrain import names
from disttrain.api.status import JobStatus, RoleStatus
from disttrain.core import indexes
from disttrain.core.model import Event, Pod
from disttrain.core.policies.suspend import is_suspended
from disttrain.core.progress import reported
from disttrain.core.readiness import Readiness, readiness
from disttrain.core.transition import Claim, changed, is_terminal, stated
from disttrain.core.view import View

_PHASES: Final = (names.SUCCEEDED, names.FAILED, names.SUSPENDED, names.RESTARTING, names.RUNNING)


def described(view: View) -> JobStatus:
    """The view's status completed with everything that is seen. Equal input gives an equal status."""
    roles = {role: _role_status(view, role) for role in view.roles}
    alive = {pod.uid for pod in view.own}
    status = changed(
        view.status,
        observed_generation=view.job.generation,
        accounted_pods=tuple(uid for uid in view.status.accounted_pods if uid in alive),
        roles=roles,
        ready=_ready_column(view, roles),
    )
    status = stated(view, status, _claims(view))
    if view.job.spec is not None:
        status = reported(view, status)  # after the conditions: they say whether a restart is over
    conditions = tuple(
        condition.model_copy(update={"observed_generation": view.job.generation}) for condition in status.conditions
    )
    phase = next((phase for phase in _PHASES if status.is_true(phase)), names.PHASE_PENDING)
    return changed(status, conditions=conditions, phase=phase)


def is_worth_writing(view: View, before: JobStatus, after: JobStatus) -> bool:
    """Whether more changed than what waits for another write.

    Accounted pods that are gone are dropped with the next write. Of a finished or suspended job whose pods are ending
    nobody needs every count on the way: they are written when the last has ended.
    """
    if after == before:
        return False
    rest = changed(after, accounted_pods=before.accounted_pods)
    if (is_terminal(before) or is_suspended(before)) and any(pod.deleting for pod in view.own):
        rest = changed(rest, ready=before.ready, roles=_with_counts_of(before, rest))
    return rest != before


def _with_counts_of(before: JobStatus, after: JobStatus) -> dict[names.Role, RoleStatus]:
    roles = {}
    for role, part in after.roles.items():
        old = before.role(role)
        counts = {"active": old.active, "ready": old.ready, "terminating": old.terminating}
        roles[role] = part.model_copy(update=counts)
    return roles


def is_urgent(before: JobStatus, after: JobStatus) -> bool:
    """Whether decisions or conditions changed, not only counters, messages or progress."""
    newly_accounted = set(after.accounted_pods) - set(before.accounted_pods)
    return bool(newly_accounted) or _essence(before) != _essence(after)


def turns(before: JobStatus, after: JobStatus) -> tuple[Event, ...]:
    """Events for conditions that turned and that no policy tells of itself."""
    events = []
    if after.is_true(names.RUNNING) and not before.is_true(names.RUNNING):
        recovered = before.is_true(names.RESTARTING)
        reason = names.REASON_RECOVERED if recovered else names.REASON_RUNNING
        events.append(Event("Normal", reason, f"Attempt {after.attempt} runs: {after.ready} pods are ready"))
    ready, was = after.condition(names.PODS_READY), before.condition(names.PODS_READY)
    if ready and ready.reason in _OBSTACLES and (was is None or was.reason != ready.reason):
        events.append(Event("Warning", ready.reason, ready.message))
    return tuple(events)


_OBSTACLES: Final = frozenset({names.REASON_NAME_IN_USE, names.REASON_CREATE_REFUSED})


def _essence(status: JobStatus) -> tuple[Any, ...]:
    return (
        sorted((condition.type, condition.status, condition.reason) for condition in status.conditions),
        (status.attempt, status.restarts, status.disruptions, status.start_time, status.completion_time),
        {role: (part.desired, part.failed, part.completed_indexes) for role, part in status.roles.items()},
        status.last_failure,
        status.last_resume,
        status.images,
    )


# --- counts ---


def _role_status(view: View, role: names.Role) -> RoleStatus:
    """What is there of a role. `active` and `ready` count the pods that matter, not those accounted for."""
    before = view.status.role(role)
    current = [pod for slot in view.slots(role) if (pod := view.current.get(slot)) is not None]
    # A suspended pod's 0 may only mean that it was told to go.
    completed = view.stored_completed(role) if is_suspended(view.status) else view.completed[role]
    return RoleStatus(
        desired=before.desired if role in view.status.roles else view.roles[role],
        active=sum(1 for pod in current if _is_active(pod)),
        ready=sum(1 for pod in current if pod.ready),
        terminating=sum(1 for pod in view.own_by_role[role] if pod.deleting),
        succeeded=len(completed),
        failed=before.failed,
        completed_indexes=indexes.render(completed),
        selector=f"{names.LABEL_JOB_NAME}={view.job.name},{names.LABEL_ROLE}={role}",
    )


def _is_active(pod: Pod) -> bool:
    return pod.exit is None and not pod.deleting


def _ready_column(view: View, roles: dict[names.Role, RoleStatus]) -> str | None:
    """Ready pods of those wanted, without the evaluator's."""
    if not roles:
        return None
    parts = [roles[role] for role in view.cluster_roles]
    return f"{sum(part.ready for part in parts)}/{sum(part.desired for part in parts)}"


# --- conditions ---


def _claims(view: View) -> Iterator[Claim]:
    if is_terminal(view.status):
        yield from _standstill(view, names.REASON_FINISHED, "the job has finished")
    elif is_suspended(view.status):
        resumes = f"; it resumes when the pods of attempt {view.status.attempt} are gone"
        message = "the job is suspended" + ("" if view.spec.suspend else resumes)
        yield from _standstill(view, names.REASON_SUSPENDED, message)
    else:
        yield from _running(view, readiness(view))


def _standstill(view: View, reason: str, message: str) -> Iterator[Claim]:
    yield Claim(names.PODS_READY, False, reason, message)
    yield Claim(names.RUNNING, False, reason, message)
    if view.status.is_true(names.RESTARTING):
        yield Claim(names.RESTARTING, False, reason, message)


def _running(view: View, now: Readiness) -> Iterator[Claim]:
    yield Claim(names.PODS_READY, now.is_ready, now.reason, now.message)
    if now.is_ready:
        message = f"attempt {view.status.attempt} runs"
        yield Claim(names.RUNNING, True, names.REASON_RUNNING, message)
        if view.status.is_true(names.RESTARTING):
            yield Claim(names.RESTARTING, False, names.REASON_RECOVERED, message)
    elif not view.status.is_true(names.RUNNING) and not view.status.is_true(names.RESTARTING):
        yield Claim(names.RUNNING, False, names.REASON_PODS_PENDING, "the job's pods are not ready yet")
