"""A test's own namespace: submit jobs, play the kubelet, wait for what follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.emulator.installation import Installation
from tests.emulator.jobs import conditions, orders
from tests.emulator.kube import Kube, Manifest
from tests.emulator.watching import View, Watch, Watches

KINDS = ("DistTrainJob", "Pod", "Service", "NetworkPolicy", "ServiceAccount")
OURS = ("Pod", "Service", "NetworkPolicy")
_LOG_LINES = 15


class Space:
    """One namespace with its watches."""

    def __init__(self, name: str, kube: Kube, watches: Watches, installation: Installation) -> None:
        self.name = name
        self.kube = kube
        self.installation = installation
        self._watches = watches

    # --- what is there ---
    def watch(self, kind: str) -> Watch:
        return self._watches.of[kind]

    def pods(self, role: str | None = None) -> View:
        """The pods that exist (those being deleted too), of one role or all."""
        labelled = self.watch("Pod").objects.items()
        return {
            name: pod
            for name, pod in labelled
            if role is None or pod["metadata"].get("labels", {}).get("disttrain.dev/role") == role
        }

    def job(self, name: str) -> Manifest:
        """The job as last seen; empty if it is not there (yet)."""
        return self.watch("DistTrainJob").objects.get(name, {})

    def status(self, name: str) -> Manifest:
        return dict(self.job(name).get("status", {}))

    def uids(self) -> dict[str, str]:
        """Pod name -> uid."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    # --- what is done ---
    async def submit(self, manifest: Manifest) -> Manifest:
        return await self.kube.create(manifest, self.name)

    async def patch(self, name: str, spec: Manifest) -> Manifest:
        """Changes a job's spec."""
        return await self.kube.patch("DistTrainJob", self.name, name, {"spec": spec})

    async def delete(self, name: str, kind: str = "DistTrainJob") -> None:
        await self.kube.delete(kind, self.name, name)

    async def end(self, pod: str, code: int, **behaviour: str) -> None:
        """Lets a running pod end with an exit code."""
        annotations = orders(exit_code=str(code), **behaviour)
        await self.kube.patch("Pod", self.name, pod, {"metadata": {"annotations": annotations}})

    async def evict(self, pod: str) -> None:
        """What the kubelet reports of a pod that it puts out for want of memory."""
        now = self.watch("Pod").objects[pod]["status"]
        reason = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        containers = [
            {**each, "ready": False, "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
            for each in now["containerStatuses"]
        ]
        status = {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory",
            "conditions": [*now["conditions"], reason],
            "containerStatuses": containers,
        }
        await self.kube.patch("Pod", self.name, pod, {"status": status}, "status")

    # --- what is awaited ---
    async def until(self, ready: Callable[[], Any], what: str) -> Any:
        """Waits until `ready()` is true and returns its result."""
        return await self._watches.until(ready, what, self._describe)

    async def phase(self, name: str, phase: str) -> Manifest:
        """The job in this phase."""
        await self.until(
            lambda: self.status(name).get("phase") == phase,
            f"job {name} is {phase}",
        )
        return self.job(name)

    async def has_condition(self, name: str, kind: str, status: str = "True") -> Manifest:
        """The job with this condition."""
        await self.until(lambda: conditions(self.job(name)).get(kind) == status, f"job {name} has {kind}={status}")
        return self.job(name)

    async def running_pods(self, *expected: str) -> View:
        """Exactly these pods, all running."""

        def ready() -> View | None:
            pods = self.pods()
            running = all(pod["status"].get("phase") == "Running" and is_alive(pod) for pod in pods.values())
            return pods if set(pods) == set(expected) and running else None

        result: View = await self.until(ready, f"the pods {', '.join(sorted(expected))} run")
        return result

    async def replaced(self, pod: str, old_uid: str) -> Manifest:
        """The pod that took another's place, running."""

        def ready() -> Manifest | None:
            new = self.pods().get(pod)
            if new is None or new["metadata"]["uid"] == old_uid or new["status"].get("phase") != "Running":
                return None
            return new

        result: Manifest = await self.until(ready, f"pod {pod} was replaced")
        return result

    async def empty(self) -> None:
        """Nothing of any job is left."""
        await self.until(
            lambda: not any(self.watch(kind).objects for kind in OURS), "no pod, Service or NetworkPolicy is left"
        )

    def _describe(self) -> str:
        jobs = {name: each.get("status") for name, each in self.watch("DistTrainJob").objects.items()}
        pods = {name: _brief(pod) for name, pod in self.pods().items()}
        others = {kind: sorted(self.watch(kind).objects) for kind in OURS if kind != "Pod"}
        lines = [json.dumps(line) for line in self.installation.operator.lines() if self.name in json.dumps(line)]
        return "\n".join(
            [
                f"jobs: {json.dumps(jobs, indent=1)}",
                f"pods: {json.dumps(pods, indent=1)}",
                f"others: {others}",
                f"operator runs: {self.installation.operator.running()}; its last words on this namespace:",
                *lines[-_LOG_LINES:],
            ]
        )


def is_alive(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def attempt(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"]["disttrain.dev/attempt"])


def _brief(pod: Manifest) -> str:
    ending = "" if is_alive(pod) else ", being deleted"
    label = pod["metadata"].get("labels", {}).get("disttrain.dev/attempt")
    return f"{pod['status'].get('phase')}, attempt {label}{ending}"
