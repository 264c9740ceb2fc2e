"""What is left of a job that has ended.

| cleanPodPolicy | pods that run or are pending | pods that have ended           |
|----------------|------------------------------|--------------------------------|
| Running        | deleted                      | stay, for their logs           |
| All            | deleted                      | deleted                        |
| None           | stay                         | stay                           |

After success the evaluator, where its pods are deleted at all, first gets
successPolicy.evaluatorGracePeriodSeconds from completionTime to evaluate the last checkpoint, unless it ends before.
When no pod runs any more the Service and the NetworkPolicy go: until then a running TensorFlow server stays closed to
others. A pod runs while any of its containers does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from disttrain import names
from disttrain.core.model import Child, Delete, Event, Pod
from disttrain.core.transition import Actions
from disttrain.core.view import View, is_running


def actions(view: View) -> Actions:
    """What to delete now, and when to look again."""
    patience = _evaluator_until(view)
    waits = patience is not None and any(_is_evaluating(pod) for pod in view.own)
    doomed = [
        pod
        for pod in view.own
        if not pod.deleting and _is_unwanted(view, pod) and not (patience is not None and _is_evaluating(pod))
    ]
    deletes = [Delete("Pod", pod.name, pod.uid) for pod in doomed]
    if not any(is_running(pod) for pod in view.own):
        deletes += [_delete_child(child) for child in view.own_children if not child.deleting]
    events = (Event("Normal", names.EVENT_PODS_DELETED, f"Deleting {len(doomed)} pods: finished"),) if doomed else ()
    return Actions(deletes=tuple(deletes), wake_at=patience if waits else None, events=events)


def _is_unwanted(view: View, pod: Pod) -> bool:
    # A job without a valid spec has no policy: what runs is stopped, what ended stays.
    policy = view.job.spec.clean_pod_policy if view.job.spec else "Running"
    return policy == "All" or (policy == "Running" and is_running(pod))


def _is_evaluating(pod: Pod) -> bool:
    return pod.role == names.EVALUATOR and is_running(pod)


def _evaluator_until(view: View) -> datetime | None:
    """Until when a running evaluator is spared; None: it is not."""
    ended = view.status.completion_time
    if view.job.spec is None or ended is None or not view.status.is_true(names.SUCCEEDED):
        return None
    until = ended + timedelta(seconds=view.job.spec.success_policy.evaluator_grace_period_seconds)
    return until if until > view.now else None


def _delete_child(child: Child) -> Delete:
    return Delete("Service" if child.kind == "Service" else "NetworkPolicy", child.name, child.uid)
