"""What a job that is to run still lacks, and what of it can be made now.

| a wanted pod is made unless                                      | because                                        |
|------------------------------------------------------------------|------------------------------------------------|
| its replica has completed                                        | what exited 0 is never run again               |
| a pod has its name                                               | it is the one, or has to go first              |
| the Service or the NetworkPolicy is there but not ours           | peers could not find it, or all could reach it |
| a name of the job (not the evaluator's) is somebody else's       | the others would only wait for it              |
| a gang: any accounted pod of the gang is left                    | old and new members must never meet            |
| ParameterServer: chief or ps, an accounted one of either is left | likewise                                       |
| a restart's wait is not over                                     | see `policies.backoff`                         |

What the API server refused stays in the plan: the shell knows when it was refused and paces the tries.

Everything accounted for (`View.is_doomed`) is deleted, a failed evaluator after its wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from disttrain import names
from disttrain.core import desired
from disttrain.core.model import Delete, Event, Manifest, Pod
from disttrain.core.policies import backoff
from disttrain.core.transition import Actions
from disttrain.core.view import Slot, View, pod_name, role_of

_CENTRE: Final = frozenset({names.CHIEF, names.PS})


def actions(view: View) -> Actions:
    """What to delete and to create now, and when to look again."""
    deletes = (*_unwanted_children(view), *_doomed(view))
    children = _missing_children(view)
    slots = list(_missing_slots(view)) if _may_make_pods(view) else []
    pods = desired.pods(view.job, slots, view.settings)
    return Actions(
        deletes=deletes,
        creates=(*children, *pods),
        wake_at=min(_wake_times(view), default=None),
        events=tuple(_events(view, slots)),
    )


# --- what has to go ---


def _doomed(view: View) -> Iterator[Delete]:
    for pod in view.doomed:
        waits = role_of(pod) == names.EVALUATOR and backoff.evaluator_replaced_at(view, pod) is not None
        if not pod.deleting and not waits:
            yield Delete("Pod", pod.name, pod.uid)


def _unwanted_children(view: View) -> Iterator[Delete]:
    for child in view.own_children:
        if child.kind == "NetworkPolicy" and "NetworkPolicy" not in view.child_kinds and not child.deleting:
            yield Delete("NetworkPolicy", child.name, child.uid)


# --- what has to come ---


def _missing_children(view: View) -> list[Manifest]:
    missing = (kind for kind in view.child_kinds if view.child(kind) is None)
    return [
        desired.child(kind, view.job, view.settings)
        for kind in missing
        if (kind, view.job.name) not in view.observed.foreign
    ]


def _may_make_pods(view: View) -> bool:
    """Pods come after the Service that names them and the policy that shields them, and not beside a taken name."""
    children = (view.child(kind) for kind in view.child_kinds)
    return all(child is None or child.owner_uid == view.job.uid for child in children) and not taken_names(view)


def _missing_slots(view: View) -> Iterator[Slot]:
    waiting = backoff.restart_at(view) is not None
    for role in view.roles:
        if role != names.EVALUATOR and (waiting or _waits_for_old_pods(view, role)):
            continue
        for slot in view.slots(role):
            name = pod_name(view.job.name, *slot)
            taken = name in view.by_name or ("Pod", name) in view.observed.foreign
            if not taken and not view.is_completed(slot):
                yield slot


def _waits_for_old_pods(view: View, role: names.Role) -> bool:
    """Whether pods that restart together with this role's are still there: a new pod could take one for its peer."""
    return any(_restart_together(view, role, old) for old in view.doomed)


def _restart_together(view: View, role: names.Role, old: Pod) -> bool:
    if old.role == names.EVALUATOR:
        return False
    return view.is_gang or (role in _CENTRE and old.role in _CENTRE)


def taken_names(view: View) -> list[tuple[str, str]]:
    """(kind, name) of what stands in the way and is not a predecessor's, which we could wait for: a person has to act.

    The evaluator's name is not asked for: training goes on without it.
    """
    orphans = {("Pod", pod.name) for pod in view.observed.pods if not pod.owner_uid}
    orphans |= {(child.kind, child.name) for child in view.observed.children if not child.owner_uid}
    standing = (view.observed.foreign | orphans) if view.job.uid else view.observed.foreign
    return sorted(standing & wanted_names(view)) if standing else []


def wanted_names(view: View) -> set[tuple[str, str]]:
    """(kind, name) of everything that training needs."""
    pods = {("Pod", pod_name(view.job.name, *slot)) for slot in view.slots(*view.cluster_roles)}
    return pods | {(kind, view.job.name) for kind in view.child_kinds}


# --- when to look again, what to tell ---


def _wake_times(view: View) -> Iterator[datetime]:
    restart = backoff.restart_at(view)
    if restart is not None:
        yield restart
    for pod in view.doomed:
        at = backoff.evaluator_replaced_at(view, pod) if role_of(pod) == names.EVALUATOR else None
        if at is not None:
            yield at
    if view.observed.refused or taken_names(view):
        yield view.now + timedelta(seconds=names.RETRY_SECONDS)


def _events(view: View, slots: Iterable[Slot]) -> Iterator[Event]:
    made = Counter(role for role, _ in slots)
    # What was refused is tried every few seconds; that is told by the condition and one event of its own.
    if made and not view.observed.refused:
        parts = ", ".join(f"{count} {role}" for role, count in made.items())
        yield Event("Normal", names.EVENT_POD_CREATED, f"Creating pods of attempt {view.status.attempt}: {parts}")
