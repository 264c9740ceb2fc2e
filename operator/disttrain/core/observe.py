"""Kubernetes' JSON reduced to what decisions need. Survives any garbage: what cannot be read is as if it were absent.

Sources of the words recognised here: core/v1 PodStatus and ContainerState; the DisruptionTarget condition
(kubernetes.io/docs/concepts/workloads/pods/disruptions); the kubelet's eviction, preemption and shutdown managers and
its admission handlers (`status.reason` of a pod of phase Failed).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from disttrain import names
from disttrain.core.model import Child, Exit, Pod
from disttrain.core.report import parse_time, printable, report_from_message, report_from_status
from disttrain_agent import contract

__all__ = ["EXIT_UNKNOWN", "child_from_manifest", "is_kubelet_rejection", "pod_from_manifest", "report_from_status"]

EXIT_UNKNOWN: Final = -1
"""`Exit.code` where the trainer container left none: it never ran, or its node is gone."""

_DISRUPTION_TARGET: Final = "DisruptionTarget"
_PENDING_AS_USUAL: Final = frozenset({"", "PodInitializing", "ContainerCreating"})

# `status.reason` of a failed pod that Kubernetes ended or refused, not the program.
_DISRUPTIONS: Final = frozenset(
    {"Evicted", "Preempting", "Preempted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost"}
)
_KUBELET_REJECTIONS: Final = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError", "TaintToleration", "PodOSNotSupported"}
)
_NAME: Final = re.compile(rf"(?P<job>.+)-(?P<role>{'|'.join(names.ROLES)})-(?P<index>0|[1-9][0-9]{{0,4}})")


def pod_from_manifest(body: Mapping[str, Any]) -> Pod | None:
    """A core/v1 Pod as the core sees it; None for what is not a pod of a DistTrainJob.

    Role and index are read from the name, which nobody can change, not from the labels. A missing or edited attempt
    label reads as attempt 0: older than any.
    """
    metadata, spec, status = _mapping(body, "metadata"), _mapping(body, "spec"), _mapping(body, "status")
    name, uid = _text(metadata, "name"), _text(metadata, "uid")
    owner = _owner(metadata)
    place = _NAME.fullmatch(name)
    job = _text(owner, "name") or _text(_mapping(metadata, "labels"), names.LABEL_JOB_NAME)
    if not place or not uid or place["job"] != job:
        return None
    trainer = _trainer(spec)
    state = _container_status(status, "containerStatuses", _text(trainer, "name"))
    ended = _exit(trainer, state, status)
    deleting = _is_deleting(metadata)
    running = ended is None and _is_in(state, "running")
    waiting = _waiting(state, status) if ended is None and not running else None
    return Pod(
        name=name,
        uid=uid,
        owner_uid=_text(owner, "uid"),
        role=place["role"],
        index=int(place["index"]),
        attempt=_attempt(metadata),
        deleting=deleting,
        running=running,
        ready=running and not deleting and state.get("ready") is True,
        exit=ended,
        disruption=_disruption(metadata, status, ended),
        waiting_reason=waiting[0] if waiting else None,
        waiting_message=waiting[1] if waiting else "",
        sidecars_running=_sidecars_running(status, _text(trainer, "name")),
    )


def child_from_manifest(kind: str, body: Mapping[str, Any]) -> Child:
    """A Service or NetworkPolicy as the core sees it; empty strings where the object does not say."""
    metadata = _mapping(body, "metadata")
    return Child(
        kind=kind,
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        owner_uid=_text(_owner(metadata), "uid"),
        deleting=_is_deleting(metadata),
    )


def is_kubelet_rejection(reason: str | None) -> bool:
    """Whether a pod with this reason was refused by its node before it ran, so that the same could happen again."""
    return reason is not None and (reason in _KUBELET_REJECTIONS or reason.startswith("OutOf"))


def _owner(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The controller's ownerReference (metav1: at most one has `controller: true`)."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            return reference
    return {}


def _is_deleting(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("deletionTimestamp") is not None


def _is_in(container: Mapping[str, Any], state: str) -> bool:
    """Whether a container status says running, waiting or terminated: the key counts, its fields are optional."""
    return isinstance(_mapping(container, "state").get(state), Mapping)


def _attempt(metadata: Mapping[str, Any]) -> int:
    label = _text(_mapping(metadata, "labels"), names.LABEL_ATTEMPT)
    return int(label) if re.fullmatch(r"[1-9][0-9]{0,8}", label, re.ASCII) else 0


def _trainer(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container that trains: the one we gave the job's environment. Injected sidecars may stand before it."""
    containers = _mappings(spec, "containers")
    for container in containers:
        if any(variable.get("name") == contract.ENV_JOB_UID for variable in _mappings(container, "env")):
            return container
    for container in containers:
        if container.get("name") == names.TRAINER_CONTAINER:
            return container
    return containers[0] if containers else {"name": names.TRAINER_CONTAINER}


def _container_status(status: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    return next((item for item in _mappings(status, kind) if item.get("name") == name), {})


def _sidecars_running(status: Mapping[str, Any], trainer: str) -> bool:
    return any(
        _is_in(item, "running") for item in _mappings(status, "containerStatuses") if item.get("name") != trainer
    )


# --- how it ended ---


def _exit(trainer: Mapping[str, Any], state: Mapping[str, Any], status: Mapping[str, Any]) -> Exit | None:
    phase = status.get("phase")
    if _is_in(state, "terminated"):
        ended = _container_exit(trainer, _mapping(_mapping(state, "state"), "terminated"))
        said_of_pod = printable(_text(status, "message")) if phase == "Failed" else ""  # why it was evicted
        return replace(ended, message="; ".join(word for word in (said_of_pod, ended.message) if word))
    if phase == "Failed":
        return _pod_failure(status)
    if phase == "Succeeded":  # all containers exited 0 (core/v1 PodPhase)
        return Exit(code=0, reason="Completed", message="", finished_at=None)
    return None


def _container_exit(trainer: Mapping[str, Any], terminated: Mapping[str, Any]) -> Exit:
    code = terminated.get("exitCode")
    code = code if isinstance(code, int) and not isinstance(code, bool) and 0 <= code < 2**31 else EXIT_UNKNOWN
    raw = _text(terminated, "message")
    report = report_from_message(raw)
    reason = printable(_text(terminated, "reason"), 64)
    words = [_out_of_memory(trainer) if reason == "OOMKilled" else "", _signal(code)]
    words.append((report.error or "") if report else _last_line(raw))
    return Exit(
        code=code,
        reason=reason,
        message="; ".join(word for word in words if word),
        finished_at=parse_time(terminated.get("finishedAt")),
        report=report,
    )


def _pod_failure(status: Mapping[str, Any]) -> Exit:
    """A pod that failed as a whole: evicted, refused by its node, or stopped by an init container."""
    reason = printable(_text(status, "reason"), 64)
    message = printable(_text(status, "message"))
    if not reason:
        for item in _mappings(status, "initContainerStatuses"):
            terminated = _mapping(_mapping(item, "state"), "terminated")
            # An init container's 42 or 64 is not the agent's: the code stays unknown, the message tells it.
            if terminated and terminated.get("exitCode") != 0:
                said = _last_line(_text(terminated, "message"))
                what = f"init container {item.get('name')} exited {terminated.get('exitCode')}"
                return Exit(
                    code=EXIT_UNKNOWN,
                    reason=names.REASON_INIT_CONTAINER_FAILED,
                    message=printable(f"{what}: {said}" if said else what),
                    finished_at=parse_time(terminated.get("finishedAt")),
                )
    return Exit(code=EXIT_UNKNOWN, reason=reason, message=message, finished_at=None)


def _out_of_memory(trainer: Mapping[str, Any]) -> str:
    limit = _mapping(_mapping(trainer, "resources"), "limits").get("memory")
    name = _text(trainer, "name")
    if isinstance(limit, str | int) and not isinstance(limit, bool):
        return f"container {name} exceeded its memory limit of {limit}"
    return f"container {name} has no memory limit: its node ran out of memory"


def _signal(code: int) -> str:
    """`128 + n` is how shells and container runtimes report death by signal n."""
    try:
        return f"killed by {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def _last_line(text: str) -> str:
    """Of a log's tail (terminationMessagePolicy FallbackToLogsOnError) the last line: a traceback's own summary."""
    lines = [line for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else ""


# --- who ended it ---


def _disruption(metadata: Mapping[str, Any], status: Mapping[str, Any], ended: Exit | None) -> str | None:
    """Kubernetes' reason where not the program ended the pod; None where it did, or nothing ended it."""
    reason = _text(status, "reason")
    if reason and (reason in _DISRUPTIONS or is_kubelet_rejection(reason)):
        return printable(reason, 64)
    for condition in _mappings(status, "conditions"):
        if condition.get("type") == _DISRUPTION_TARGET and condition.get("status") == "True":
            since = parse_time(condition.get("lastTransitionTime"))
            if ended and ended.code == 0 and _before(ended.finished_at, since):
                break  # it had finished by itself before anybody came for it
            return printable(_text(condition, "reason"), 64) or _DISRUPTION_TARGET
    if _is_deleting(metadata) and not (ended and _before(ended.finished_at, _deletion_began(metadata))):
        return names.REASON_POD_DELETED
    return None


def _deletion_began(metadata: Mapping[str, Any]) -> datetime | None:
    """deletionTimestamp is when the grace period ends, not when somebody asked (metav1 ObjectMeta)."""
    ends = parse_time(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds")
    grace = grace if isinstance(grace, int) and 0 <= grace <= 10**8 else 0
    try:
        return ends - timedelta(seconds=grace) if ends else None
    except OverflowError:
        return None


def _before(one: datetime | None, other: datetime | None) -> bool:
    """Strictly: the API's times have whole seconds, and a program that obeys SIGTERM often ends within the same one."""
    return one is not None and other is not None and one < other


# --- why it does not run yet ---


def _waiting(state: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first reason that a person could act on, with Kubernetes' message; else the usual one."""
    for condition in _mappings(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return printable(_text(condition, "reason"), 64) or "Unscheduled", printable(_text(condition, "message"))
    for item in _mappings(status, "initContainerStatuses"):
        reason, message = _waiting_state(item)
        if reason not in _PENDING_AS_USUAL:
            return reason, printable(f"init container {item.get('name')}: {message}".rstrip(": "))
        if _is_in(item, "running") and item.get("started") is not True:
            return "PodInitializing", printable(f"init container {item.get('name')} is running")
    for item in (state, *_mappings(status, "containerStatuses")):
        reason, message = _waiting_state(item)
        if reason not in _PENDING_AS_USUAL:
            return reason, message
    reason, message = _waiting_state(state)
    return (reason, message) if reason else None


def _waiting_state(item: Mapping[str, Any]) -> tuple[str, str]:
    waiting = _mapping(_mapping(item, "state"), "waiting")
    return printable(_text(waiting, "reason"), 64), printable(_text(waiting, "message"))


# --- reading what may be anything ---


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _mappings(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = data.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
