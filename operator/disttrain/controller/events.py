"""Events about a job, as `kubectl describe` shows them (events.k8s.io/v1).

Our own writer: kopf's needs the context of the handler that kopf calls, and a reconcile runs outside of it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from disttrain import names
from disttrain.controller.keys import JOB
from disttrain.core.model import Event, Job, Manifest

MAX_NOTE_BYTES: Final = 1024  # events.k8s.io/v1: note
ACTION: Final = "Reconcile"


def event_manifest(job: Job, event: Event, now: datetime, reporter: str) -> Manifest:
    """The event as an object. `reporter` is this operator's pod. The name is unique as client-go's is: by the time."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{time.time_ns():x}", "namespace": job.namespace},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),  # metav1.MicroTime
        "reportingController": names.OPERATOR,
        "reportingInstance": reporter,
        "action": ACTION,
        "type": event.type,
        "reason": event.reason,
        "note": _cut(event.message),
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": JOB,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
    }


def _cut(text: str) -> str:
    data = text.encode()
    return text if len(data) <= MAX_NOTE_BYTES else data[: MAX_NOTE_BYTES - 3].decode(errors="ignore") + "…"
