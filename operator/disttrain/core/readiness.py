"""Whether a job's pods are ready, and if not, in one message, why: the first culprits with Kubernetes' own words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from disttrain import names
from disttrain.api.status import rfc3339
from disttrain.core import creation
from disttrain.core.model import Pod
from disttrain.core.policies import backoff
from disttrain.core.view import Slot, View, pod_name

_MOST_CULPRITS: Final = 3
_USUAL: Final = frozenset({None, "", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True)
class Readiness:
    """The condition PodsReady."""

    is_ready: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Culprit:
    slot: Slot
    why: str
    is_usual: bool
    """It only takes a moment, so it is named last."""


def readiness(view: View) -> Readiness:
    """Looks at every slot but the evaluator's."""
    slots = list(view.slots(*view.cluster_roles))
    done = sum(1 for slot in slots if _is_done(view, slot))
    obstacle = _obstacle(view)
    if obstacle is not None:
        return Readiness(False, obstacle[0], f"{done} of {len(slots)} pods are ready; {obstacle[1]}")
    if done == len(slots):
        return Readiness(True, names.REASON_PODS_READY, f"all {len(slots)} pods are ready{_evaluator(view)}")
    return Readiness(
        False, names.REASON_PODS_PENDING, f"{done} of {len(slots)} pods are ready; {_culprits(view, slots)}"
    )


def _evaluator(view: View) -> str:
    """A word on an evaluator that does not run: nothing waits for it, but somebody may wonder."""
    missing = [slot for slot in view.slots(names.EVALUATOR) if not _is_done(view, slot)]
    return "".join(f"; {role}-{index} {_culprit(view, (role, index)).why}" for role, index in missing)


def _is_done(view: View, slot: Slot) -> bool:
    pod = view.current.get(slot)
    return (pod is not None and pod.ready) or view.is_completed(slot)


def _obstacle(view: View) -> tuple[str, str] | None:
    """What keeps pods from being made and needs somebody, or a predecessor's end."""
    taken = creation.taken_names(view)
    if taken:
        kind, name = taken[0]
        return (
            names.REASON_NAME_IN_USE,
            f"{kind} {name} exists and belongs to somebody else: delete it or rename the job",
        )
    refused = view.observed.refused
    for kind, name in sorted(refused.keys() & creation.wanted_names(view)) if refused else ():
        words = refused[kind, name]
        return names.REASON_CREATE_REFUSED, f"the API server refused {kind} {name}: {words}"
    old = next(_predecessors(view), None)
    if old is not None:
        kind, name = old
        return names.REASON_WAITING_FOR_PREDECESSOR, f"{kind} {name} of a deleted job of the same name is not gone yet"
    return None


def _predecessors(view: View) -> Iterator[tuple[str, str]]:
    for kind in view.child_kinds:
        child = view.child(kind)
        if child is not None and child.owner_uid != view.job.uid:
            yield kind, child.name
    for slot in view.slots(*view.cluster_roles):
        pod = view.by_name.get(pod_name(view.job.name, *slot))
        if pod is not None and pod.owner_uid != view.job.uid:
            yield "Pod", pod.name


def _culprits(view: View, slots: list[Slot]) -> str:
    waits_until = backoff.restart_at(view)
    if waits_until is not None:
        return f"restart {view.status.restarts} waits until {rfc3339(waits_until)}"
    culprits = [_culprit(view, slot) for slot in slots if not _is_done(view, slot)]
    culprits.sort(key=lambda culprit: culprit.is_usual)
    told = [f"{culprit.slot[0]}-{culprit.slot[1]} {culprit.why}" for culprit in culprits[:_MOST_CULPRITS]]
    if len(culprits) > len(told):
        told.append(f"and {len(culprits) - len(told)} more")
    return "; ".join(told)


def _culprit(view: View, slot: Slot) -> _Culprit:
    pod = view.current.get(slot)
    if pod is not None:
        return _Culprit(slot, _pod_says(pod), pod.waiting_reason in _USUAL and not pod.running)
    name = pod_name(view.job.name, *slot)
    old = view.by_name.get(name)
    if old is not None:
        return _Culprit(slot, f"pod of attempt {old.attempt} is still ending", False)
    if ("Pod", name) in view.observed.refused:
        return _Culprit(slot, f"{names.REASON_CREATE_REFUSED}: {view.observed.refused['Pod', name]}", False)
    return _Culprit(slot, "is not made yet", True)


def _pod_says(pod: Pod) -> str:
    if pod.running:
        return "runs but is not ready"
    words = pod.waiting_reason or "Pending"
    return f"{words}: {pod.waiting_message}" if pod.waiting_message else words
