"""How a job begins.

| job                                             | then                                                        |
|-------------------------------------------------|-------------------------------------------------------------|
| has field errors                                | Failed, InvalidSpec, the errors as message; nothing is made |
| is valid, not suspended, never started          | attempt 1, startTime, the default images of its whole life  |
| its pods are of a later attempt than its status | the status takes over their attempt                         |

The last row is for a status that is older than the world: one read late, so that writing it will be refused and
nothing else is done, or one wiped by hand, which is so repaired. Without it, deletes without a status write could hit
the pods of an attempt that the status does not know of yet.
"""

from __future__ import annotations

from disttrain import names
from disttrain.api.status import Images, JobStatus
from disttrain.core import transition
from disttrain.core.model import Event
from disttrain.core.transition import Transition, changed
from disttrain.core.view import View


def adopted(view: View) -> View:
    """The view with the newest attempt that pods of the job carry."""
    newest = max((pod.attempt for pod in view.own), default=0)
    return view if newest <= view.status.attempt else view.with_status(changed(view.status, attempt=newest))


def refuse(view: View) -> Transition | None:
    """Fails a job that cannot be understood."""
    if view.job.spec is not None:
        return None
    faults = "; ".join(str(error) for error in view.job.errors)
    return transition.failed(
        view, view.status, names.REASON_INVALID_SPEC, f"{faults}. Correct it and create the job anew."
    )


def start(view: View) -> Transition | None:
    """Starts a job that never ran."""
    if view.status.start_time is not None:
        return None
    return Transition(
        started(view, max(view.status.attempt, 1)),
        (Event("Normal", names.REASON_CREATED, f"Accepted: {_size(view)}, strategy {view.spec.strategy}"),),
    )


def started(view: View, attempt: int) -> JobStatus:
    """The status at the start of the first attempt or of one after a suspension."""
    images = view.status.images or Images(trainer=view.settings.trainer_image, agent=view.settings.agent_image)
    return changed(resized(view), attempt=attempt, start_time=view.now, images=images)


def resized(view: View) -> JobStatus:
    """The status with the spec's number of pods taken over: from now on pods are told of that number."""
    roles = {
        role: view.status.role(role).model_copy(update={"desired": replicas}) for role, replicas in view.roles.items()
    }
    return changed(view.status, roles=roles)


def _size(view: View) -> str:
    return ", ".join(f"{replicas} {role}" for role, replicas in view.roles.items())
