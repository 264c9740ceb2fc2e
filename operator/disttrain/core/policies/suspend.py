"""Suspending and resuming, as batch/v1 Job and Kueue understand it.

| spec.suspend | condition Suspended | old pods | then                                                     |
|--------------|---------------------|----------|----------------------------------------------------------|
| true         | not True            | any      | Suspended=True; all pods are deleted, nothing is counted |
| true         | True                | any      | what is left of the pods is deleted                      |
| false        | True                | some     | wait: nothing new beside an old pod                      |
| false        | True                | none     | Suspended=False, attempt + 1, startTime anew             |

Failures of pods that are being suspended are not looked at. A gang forgets which of its replicas had completed.
"""

from __future__ import annotations

from disttrain import names
from disttrain.api.status import JobStatus
from disttrain.core.model import Delete, Event
from disttrain.core.policies.admission import resized, started
from disttrain.core.transition import Actions, Claim, Transition, changed, stated
from disttrain.core.view import View


def is_suspended(status: JobStatus) -> bool:
    """Whether the status says so; what the spec wants is another matter."""
    return status.is_true(names.SUSPENDED)


def decide(view: View) -> Transition | None:
    """What suspension asks for; None where the job is to run and runs."""
    if view.spec.suspend:
        return Transition(view.status) if is_suspended(view.status) else _suspend(view)
    if not is_suspended(view.status):
        return None
    return Transition(view.status) if view.own else _resume(view)


def actions(view: View) -> Actions:
    """A suspended job has no pods."""
    doomed = [pod for pod in view.own if not pod.deleting]
    events = (Event("Normal", names.EVENT_PODS_DELETED, f"Deleting {len(doomed)} pods: suspended"),) if doomed else ()
    return Actions(deletes=tuple(Delete("Pod", pod.name, pod.uid) for pod in doomed), events=events)


def _suspend(view: View) -> Transition:
    message = "spec.suspend is true; set it to false to resume from the last checkpoint"
    status = without_gang_completions(view, resized(view))
    return Transition(
        stated(view, status, [Claim(names.SUSPENDED, True, names.REASON_SUSPENDED, message)]),
        (Event("Normal", names.REASON_SUSPENDED, "Suspended"),),
    )


def _resume(view: View) -> Transition:
    status = started(view, view.status.attempt + 1)
    claim = Claim(names.SUSPENDED, False, names.REASON_RESUMED, f"resumed as attempt {status.attempt}")
    return Transition(
        stated(view, status, [claim]),
        (Event("Normal", names.REASON_RESUMED, f"Resumed as attempt {status.attempt}"),),
    )


def without_gang_completions(view: View, status: JobStatus) -> JobStatus:
    """Collectives need every member, also one that had finished: a gang starts again as a whole."""
    if not view.is_gang:
        return status
    roles = {
        role: part if role == names.EVALUATOR else part.model_copy(update={"completed_indexes": None})
        for role, part in status.roles.items()
    }
    return changed(status, roles=roles)
