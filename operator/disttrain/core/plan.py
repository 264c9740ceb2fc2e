"""The whole of an operator's judgement: a job, its world and the time in, what to do out."""

from __future__ import annotations

from datetime import datetime

from disttrain import names
from disttrain.core import creation, status
from disttrain.core.model import Job, Observed, Plan, Settings
from disttrain.core.policies import admission, cleanup, resize, restart, success, suspend
from disttrain.core.transition import Actions, Transition, is_terminal
from disttrain.core.view import View


def plan(job: Job, observed: Observed, now: datetime, settings: Settings) -> Plan:
    """What to do about a job now. Pure: the same input gives the same plan; `now` must be aware.

    A plan is carried out in its order. Broken off after any write and computed anew it goes on where it broke off:
    everything decided is in the status, which is written first, and the rest follows from status and world.
    """
    if job.deleting or not _is_ours(job):
        return Plan()
    view = View(job, observed, now, settings)
    decision = _decide(view)
    view = view.with_status(decision.status)
    actions = _act(view)
    after = status.described(view)
    worth = status.is_worth_writing(view, job.status, after)
    return Plan(
        status=after if worth else None,
        urgent=worth and status.is_urgent(job.status, after),
        deletes=actions.deletes,
        creates=actions.creates,
        events=(*decision.events, *status.turns(job.status, after), *actions.events),
        wake_at=actions.wake_at,
    )


def _is_ours(job: Job) -> bool:
    """A garbage collected or foreign-managed job is left alone."""
    return job.spec is None or job.spec.managed_by == names.OPERATOR


def _decide(view: View) -> Transition:
    """The first that has something to say decides: deletion > terminal > suspend > success > failure > resize."""
    if is_terminal(view.status):
        return Transition(view.status)
    refused = admission.refuse(view)
    if refused is not None:
        return refused
    view = admission.adopted(view)
    return (
        suspend.decide(view)
        or admission.start(view)
        or success.decide(view)
        or restart.decide(view)
        or resize.decide(view)
        or Transition(view.status)
    )


def _act(view: View) -> Actions:
    """What the status, as it is after the decision, asks to be done."""
    if is_terminal(view.status):
        return cleanup.actions(view)
    if suspend.is_suspended(view.status):
        return suspend.actions(view)
    return creation.actions(view)
