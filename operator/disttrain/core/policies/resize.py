"""What a change of size does to a running job.

| status.roles.<role>.desired | then                                                                              |
|-----------------------------|-----------------------------------------------------------------------------------|
| equals the spec             | nothing                                                                           |
| differs, for any of chief,  | the whole job restarts from its last checkpoint as attempt + 1 with the new       |
| worker, ps                  | number; not counted. Pods above the number are deleted, the others made anew:     |
|                             | every one of them has been told of the old size                                   |
| differs, evaluator          | taken over; its pods come and go by themselves                                    |

Failures are looked at first. A gang that restarts for a failure takes the new size over at once; under ParameterServer,
where a failure restarts only a part, the change of size follows in the next plan.
"""

from __future__ import annotations

from disttrain import names
from disttrain.core.model import Event
from disttrain.core.policies.admission import resized
from disttrain.core.policies.suspend import without_gang_completions
from disttrain.core.transition import Claim, Transition, changed, stated
from disttrain.core.view import View, role_of


def decide(view: View) -> Transition | None:
    """A restart at the wanted size, where it is not the size the pods know."""
    moved = [role for role, replicas in view.roles.items() if view.status.role(role).desired != replicas]
    if not moved:
        return None
    status = resized(view)
    if moved == [names.EVALUATOR]:
        return Transition(status)
    told = {role: (view.status.role(role).desired, view.roles[role]) for role in moved}
    sizes = ", ".join(f"{role} from {old} to {new}" for role, (old, new) in told.items())
    status = without_gang_completions(view, status)
    status = changed(
        status,
        attempt=status.attempt + 1,
        accounted_pods=status.accounted_pods if view.is_gang else _accounted(view),
    )
    message = f"{sizes}; restarting all of them as attempt {status.attempt} from the last checkpoint"
    claims = [
        Claim(names.RESTARTING, True, names.REASON_RESIZED, message),
        Claim(names.RUNNING, False, names.REASON_RESIZED, message),
    ]
    return Transition(stated(view, status, claims), (Event("Normal", names.REASON_RESIZED, message),))


def _accounted(view: View) -> tuple[str, ...]:
    """Every pod of the cluster; the evaluator stays."""
    uids = [pod.uid for pod in view.own if role_of(pod) != names.EVALUATOR]
    return tuple(dict.fromkeys((*view.status.accounted_pods, *uids)))
