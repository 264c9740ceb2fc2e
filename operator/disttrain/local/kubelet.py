"""What a kubelet and an API server would write into a pod's body, so that the core observes it as it does in a cluster.

Pure: each function returns a new body. Only fields that `disttrain.core.observe` reads are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from disttrain import names
from disttrain.core.model import Manifest
from disttrain.local.launch import trainer_container


def started(body: Manifest) -> Manifest:
    """The trainer container runs at once: on one machine nothing has to be scheduled or pulled."""
    return _with_state(body, {"running": {}}, ready=True)


def ended(body: Manifest, code: int, message: str, now: datetime) -> Manifest:
    """The trainer container has terminated (core/v1 ContainerStateTerminated)."""
    reason = "Completed" if code == 0 else "Error"
    terminated = {"exitCode": code, "reason": reason, "message": message, "finishedAt": now.isoformat()}
    return _with_state(body, {"terminated": terminated}, ready=False)


def deleted(body: Manifest, now: datetime) -> Manifest:
    """Somebody asked for the pod to go: deletionTimestamp is when its grace period ends (metav1 ObjectMeta)."""
    grace = grace_seconds(body)
    deletion = {
        "deletionTimestamp": (now + timedelta(seconds=grace)).isoformat(),
        "deletionGracePeriodSeconds": grace,
    }
    return {**body, "metadata": {**body["metadata"], **deletion}}


def grace_seconds(body: Manifest) -> int:
    """How long the pod may take to end when asked to."""
    return int(body["spec"].get("terminationGracePeriodSeconds", names.DEFAULT_GRACE_SECONDS))


def _with_state(body: Manifest, state: Mapping[str, Any], ready: bool) -> Manifest:
    container = {"name": trainer_container(body)["name"], "state": state, "ready": ready}
    phase = "Running" if ready else None
    return {**body, "status": {"phase": phase, "containerStatuses": [container]}}
