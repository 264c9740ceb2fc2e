"""How long a restart waits, so that a program that always fails does not spin.

| restart                                                 | wait, with b = Settings.restart_backoff_seconds           |
|---------------------------------------------------------|------------------------------------------------------------|
| 1st counted                                             | none                                                       |
| n-th counted, n >= 2                                    | b, 2b, 4b, ... at most 30b, from lastFailure.time          |
| not counted                                             | none                                                       |
| not counted, the pod was refused by its node            | b, from lastFailure.time: the next try may be refused too  |
| evaluator's own n-th                                    | the same series by its own count, from the end of its pod, |
|                                                         | which stays that long with its logs                        |

The wait is the whole job's: while it lasts no pod of chief, workers and parameter servers is made.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from disttrain import names
from disttrain.core.model import Pod
from disttrain.core.observe import is_kubelet_rejection
from disttrain.core.view import View


def wait(failures: int, base_seconds: float) -> timedelta:
    """The wait before the restart after this many counted failures."""
    if failures <= 1:
        return timedelta(0)
    return timedelta(seconds=base_seconds * min(2 ** min(failures - 2, 10), 30))


def restart_at(view: View) -> datetime | None:
    """When pods may be made again; None: now."""
    restarting = view.status.condition(names.RESTARTING)
    failure = view.status.last_failure
    if not restarting or restarting.status != "True" or failure is None or failure.time is None:
        return None
    base = view.settings.restart_backoff_seconds
    if restarting.reason == names.REASON_ROLE_FAILED:
        at = failure.time + wait(view.status.restarts, base)
    elif restarting.reason == names.REASON_DISRUPTED and is_kubelet_rejection(failure.reason):
        at = failure.time + timedelta(seconds=base)
    else:
        return None
    return at if at > view.now else None


def evaluator_replaced_at(view: View, pod: Pod) -> datetime | None:
    """When a failed evaluator's pod makes room for the next; None: now."""
    if pod.exit is None or pod.exit.finished_at is None or pod.disruption is not None:
        return None
    at = pod.exit.finished_at + wait(view.status.role(names.EVALUATOR).failed, view.settings.restart_backoff_seconds)
    return at if at > view.now else None
