"""What a failure costs and what it takes with it.

How a replica is lost, in the current attempt:

| what is seen                                                          | kind    | lastFailure.reason              |
|-----------------------------------------------------------------------|---------|---------------------------------|
| trainer container exited 64 (the agent's: wrong use)                  | fatal   | UsageError                      |
| exited 42 (the agent's: saved on SIGTERM)                             | free    | SavedOnSignal                   |
| DisruptionTarget, evicted, preempted, node lost, refused by its node  | free    | Kubernetes' word                |
| deleted by somebody else, or gone without our doing                   | free    | PodDeleted                      |
| exited 75 (the agent's: peers missing)                                | counted | PeersMissing                    |
| any other exit but 0                                                  | counted | OOMKilled, ... or PodExited     |

Whom it takes with it (its scope). Losses with overlapping scopes are one, and a free one makes the others free: when a
node is drained, the peers fail as a consequence.

| strategy                      | lost   | restarted             |
|-------------------------------|--------|-----------------------|
| Mirrored, MultiWorkerMirrored | any    | chief and all workers |
| ParameterServer               | worker | that worker           |
|                               | ps     | that ps and the chief |
|                               | chief  | the chief             |
| any                           | evaluator | the evaluator; never counted against backoffLimit |

One status write says it all: restarts (or disruptions) + 1 for each scope, attempt + 1, lastFailure, and whose pods are
accounted for (gangs: all of an earlier attempt; else by uid). Deleting and creating follow from that status alone, so
nothing is counted twice, whatever happens in between. Past backoffLimit, or at once if fatal, the job has Failed.

Why these scopes: TensorFlow 2.21's collectives abort on a lost or re-created member, a parameter-server job survives a
lost worker, and the coordinator dies with a parameter server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from disttrain import names
from disttrain.api.status import JobStatus, LastFailure
from disttrain.core import transition
from disttrain.core.losses import Loss, evaluator_loss, losses
from disttrain.core.model import Event
from disttrain.core.policies.admission import resized
from disttrain.core.policies.suspend import without_gang_completions
from disttrain.core.transition import Claim, Transition, changed, stated
from disttrain.core.view import View
from disttrain_agent import contract

_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_CENTRE: Final = frozenset({names.CHIEF, names.PS})


def decide(view: View) -> Transition | None:
    """Accounts for everything that is lost; None where nothing is."""
    evaluator = _restart_evaluator(view)
    if evaluator is not None:
        view = view.with_status(evaluator.status)
    lost = losses(view)
    if not lost:
        return evaluator
    fatal = next((loss for loss in lost if loss.kind == "fatal"), None)
    if fatal is not None:
        return _fail(view, fatal, names.REASON_USAGE_ERROR, "; a restart would end the same way")
    outcome = _restart(view, lost)
    return Transition(outcome.status, (*(evaluator.events if evaluator else ()), *outcome.events))


def _restart(view: View, lost: list[Loss]) -> Transition:
    scopes = _scopes(view, lost)
    causes = [_cause(scope) for scope in scopes]
    counted = [cause for cause in causes if cause.kind == "counted"]
    status = changed(
        _with_failures(view, scopes),
        restarts=view.status.restarts + len(counted),
        disruptions=view.status.disruptions + len(causes) - len(counted),
    )
    cause = (counted or causes)[0]
    limit = view.spec.backoff_limit
    if status.restarts > limit:
        suffix = f"; {status.restarts} counted failures are more than backoffLimit {limit}"
        return _fail(view.with_status(status), cause, names.REASON_BACKOFF_LIMIT, suffix)
    status = changed(
        status,
        attempt=status.attempt + 1,
        last_failure=_last_failure(view, cause),
        accounted_pods=status.accounted_pods if view.is_gang else _accounted(view, lost),
    )
    return _restarting(view, status, cause, scopes)


def _restarting(view: View, status: JobStatus, cause: Loss, scopes: list[list[Loss]]) -> Transition:
    message = f"{_tell(cause)}; restarting {_extent(view, scopes)} as attempt {status.attempt}"
    if cause.kind == "counted":
        reason = names.REASON_ROLE_FAILED
        message += f" (counted failures: {status.restarts} of at most {view.spec.backoff_limit})"
        event = Event("Warning", reason, message)
    else:
        reason = names.REASON_DISRUPTED
        event = Event("Normal", reason, message)
    before = view.status.condition(names.RESTARTING)
    if before and before.status == "True" and before.reason == names.REASON_ROLE_FAILED:
        reason = before.reason  # a disruption during a counted restart does not end its wait
    claims = [Claim(names.RESTARTING, True, reason, message), Claim(names.RUNNING, False, reason, message)]
    return Transition(stated(view, status, claims), (event,))


def _fail(view: View, cause: Loss, reason: str, why: str) -> Transition:
    status = changed(view.status, last_failure=_last_failure(view, cause))
    return transition.failed(view, status, reason, f"{_tell(cause)}{why}")


def _restart_evaluator(view: View) -> Transition | None:
    """The evaluator by itself: its uid is accounted for, its own count goes up, nothing else moves."""
    loss = evaluator_loss(view)
    if loss is None or loss.pod is None:
        return None
    counts = loss.kind != "free"
    before = view.status.role(names.EVALUATOR)
    status = changed(
        view.status,
        accounted_pods=(*view.status.accounted_pods, loss.pod.uid),
        roles={**view.status.roles, names.EVALUATOR: before.model_copy(update={"failed": before.failed + counts})},
    )
    events = (Event("Warning", names.REASON_EVALUATOR_FAILED, f"{_tell(loss)}; restarting it"),) if counts else ()
    return Transition(status, events)


# --- scopes ---


def _scopes(view: View, lost: list[Loss]) -> list[list[Loss]]:
    """The losses, those of one scope together."""
    if view.is_gang:
        return [lost]
    centre = [loss for loss in lost if loss.slot[0] in _CENTRE]
    return [*([centre] if centre else []), *([loss] for loss in lost if loss.slot[0] not in _CENTRE)]


def _cause(scope: list[Loss]) -> Loss:
    """The loss that explains the others: one that is not counted, else the first to end.

    A replica that ended for want of its peers explains nothing while another one is to be had.
    """

    def rank(loss: Loss) -> tuple[bool, bool, datetime]:
        ended = loss.pod.exit.finished_at if loss.pod and loss.pod.exit else None
        return loss.kind != "free", loss.exit_code == contract.EXIT_PEERS_MISSING, ended or _LATEST

    return min(scope, key=rank)


def _accounted(view: View, lost: list[Loss]) -> tuple[str, ...]:
    """Uids of the pods that exist and go down with these losses, beside those accounted for before."""
    pods = [loss.pod for loss in lost]
    if any(loss.slot[0] == names.PS for loss in lost):
        pods.append(view.current.get((names.CHIEF, 0)))
    return tuple(dict.fromkeys((*view.status.accounted_pods, *(pod.uid for pod in pods if pod))))


def _with_failures(view: View, scopes: list[list[Loss]]) -> JobStatus:
    """Counts each replica that failed by itself; a gang also takes over the wanted size and forgets completions."""
    failures = Counter(loss.slot[0] for scope in scopes if _cause(scope).kind == "counted" for loss in scope)
    status = without_gang_completions(view, resized(view)) if view.is_gang else view.status
    roles = dict(status.roles)
    for role, count in failures.items():
        before = status.role(role)
        roles[role] = before.model_copy(update={"failed": before.failed + count})
    return changed(status, roles=roles)


# --- words ---


def _last_failure(view: View, loss: Loss) -> LastFailure:
    role, index = loss.slot
    return LastFailure(
        time=view.now,
        attempt=loss.pod.attempt if loss.pod else view.status.attempt,
        role=role,
        index=index,
        reason=loss.reason,
        exit_code=loss.exit_code,
        message=loss.message or None,
    )


def _tell(loss: Loss) -> str:
    code = "" if loss.exit_code is None else f" (exit code {loss.exit_code})"
    return f"{loss.slot[0]}-{loss.slot[1]} {loss.reason}{code}" + (f": {loss.message}" if loss.message else "")


def _extent(view: View, scopes: list[list[Loss]]) -> str:
    if view.is_gang:
        return " and ".join("the chief" if role == names.CHIEF else f"every {role}" for role in view.cluster_roles)
    lost = [loss.slot for scope in scopes for loss in scope]
    if any(role == names.PS for role, _ in lost) and (names.CHIEF, 0) not in lost:
        lost.append((names.CHIEF, 0))
    return _some([f"{role}-{index}" for role, index in lost])


def _some(words: Iterable[str], most: int = 4) -> str:
    words = list(words)
    return ", ".join(words) if len(words) <= most else ", ".join(words[:most]) + f" and {len(words) - most} more"
