"""When a job has succeeded.

| strategy            | successPolicy.type   | Succeeded when these exited 0 in the current attempt   |
|---------------------|----------------------|--------------------------------------------------------|
| Mirrored            | Chief or AllWorkers  | worker 0                                               |
| MultiWorkerMirrored | Chief                | the chief, or worker 0 where there is no chief         |
| MultiWorkerMirrored | AllWorkers           | the chief and every worker                             |
| ParameterServer     | Chief                | the chief                                              |

It is looked at before failures: a worker that fails in the same instant as the chief ends does not undo the success,
whichever of the two is seen first in that instant. The evaluator is never asked. Pods that are accounted for (a failure
of theirs or of their gang is in the status already) are never asked either: their 0 may only mean they were told to go.
"""

from __future__ import annotations

from datetime import datetime

from disttrain import names
from disttrain.core.model import Event
from disttrain.core.transition import Claim, Transition, changed, stated
from disttrain.core.view import Slot, View


def decide(view: View) -> Transition | None:
    """Succeeded if the criterion holds now."""
    deciding = _deciding(view)
    if not deciding or not all(view.is_completed(slot) for slot in deciding):
        return None
    if len(deciding) == 1:
        role, index = deciding[0]
        reason, message = names.REASON_CHIEF_SUCCEEDED, f"{role}-{index} exited 0"
    else:
        reason, message = names.REASON_ALL_WORKERS_SUCCEEDED, f"all {len(deciding)} of chief and workers exited 0"
    status = changed(view.status, completion_time=_ended_at(view, deciding))
    return Transition(
        stated(view, status, [Claim(names.SUCCEEDED, True, reason, message)]),
        (Event("Normal", names.SUCCEEDED, f"The job has succeeded: {message}"),),
    )


def _deciding(view: View) -> list[Slot]:
    if view.spec.success_policy.type == "AllWorkers":
        return list(view.slots(names.CHIEF, names.WORKER))
    return [view.leader]


def _ended_at(view: View, deciding: list[Slot]) -> datetime:
    """When the last of them ended, which may be long ago if nobody was there to see it; never in the future."""
    pods = [view.current.get(slot) for slot in deciding]
    times = [pod.exit.finished_at for pod in pods if pod and pod.exit and pod.exit.finished_at]
    return min(max(times, default=view.now), view.now)
