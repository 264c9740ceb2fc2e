"""Which replicas are lost, and why: observation put in the words of `policies.restart`, which decides what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from disttrain import names
from disttrain.core.model import Pod
from disttrain.core.observe import EXIT_UNKNOWN
from disttrain.core.view import Slot, View, has_succeeded
from disttrain_agent import contract

Kind = Literal["counted", "free", "fatal"]
"""Counted against backoffLimit; not counted; or such that a restart cannot help."""

_AGENT_CODES: Final[dict[int, tuple[Kind, str]]] = {
    contract.EXIT_SAVED: ("free", names.REASON_SAVED_ON_SIGNAL),
    contract.EXIT_USAGE: ("fatal", names.REASON_USAGE_ERROR),
    contract.EXIT_PEERS_MISSING: ("counted", names.REASON_PEERS_MISSING),
}
_SAYS_NOTHING: Final = frozenset({"", "Error", "Completed"})
"""Reasons of a terminated container that are not in themselves a cause."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One replica that does not run any more and has not completed. `pod` is None where it is gone."""

    slot: Slot
    pod: Pod | None
    kind: Kind
    reason: str
    message: str

    @property
    def exit_code(self) -> int | None:
        """The trainer container's; None where it left none."""
        code = self.pod.exit.code if self.pod and self.pod.exit else EXIT_UNKNOWN
        return None if code == EXIT_UNKNOWN else code


def losses(view: View) -> list[Loss]:
    """Every loss in the job's current attempt, in the order of slots. Without the evaluator: see `evaluator_loss`."""
    found = []
    for role in view.cluster_roles:
        vanished = _vanished(view, role)
        stored = view.stored_completed(role)
        for slot in view.slots(role):
            pod = view.current.get(slot)
            if pod is None:
                if vanished > 0 and slot[1] not in stored:
                    found.append(Loss(slot, None, "free", names.REASON_POD_DELETED, "its pod is gone"))
                    vanished -= 1
            elif (loss := _loss(slot, pod)) is not None:
                found.append(loss)
    return found


def evaluator_loss(view: View) -> Loss | None:
    """The evaluator's loss, if any. One that vanished needs no accounting, only a new pod."""
    slot: Slot = (names.EVALUATOR, 0)
    pod = view.current.get(slot)
    return _loss(slot, pod) if pod else None


def _vanished(view: View, role: names.Role) -> int:
    """How many pods of a role went without a trace: the status says active of more than are there.

    Not asked while a change of size is due, which restarts the whole job anyway.
    """
    before = view.status.role(role)
    if before.desired != view.roles[role]:
        return 0
    stored = view.stored_completed(role)
    here = sum(1 for slot in view.slots(role) if slot[1] not in stored and slot in view.current)
    return max(0, before.active - here)


def _loss(slot: Slot, pod: Pod) -> Loss | None:
    if has_succeeded(pod):
        return None
    if pod.exit is None:
        if not pod.deleting:  # DisruptionTarget alone is an announcement; Kubernetes may still take it back
            return None
        return Loss(slot, pod, "free", pod.disruption or names.REASON_POD_DELETED, "its pod is being deleted")
    if pod.disruption is not None:
        return Loss(slot, pod, "free", pod.disruption, pod.exit.message)
    kind, reason = _AGENT_CODES.get(pod.exit.code, ("counted", ""))
    if not reason:
        reason = names.REASON_POD_EXITED if pod.exit.reason in _SAYS_NOTHING else pod.exit.reason
    return Loss(slot, pod, kind, reason, pod.exit.message)
