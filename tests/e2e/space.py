"""A namespace of a test's own, and what can be asked about the jobs in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.e2e.kubectl import Kubectl, wait_for

FINISH_SECONDS = 420.0
"""For a small job with TensorFlow on a machine that does other things too."""
TOLD_SECONDS = 30.0
"""For Kubernetes to know of a fault, and the job to say it."""
_CHILDREN = "pods,services,networkpolicies"


@dataclass(frozen=True)
class Space:
    """The namespace, seen through kubectl."""

    kubectl: Kubectl

    @property
    def name(self) -> str:
        return self.kubectl.namespace

    def job(self, name: str) -> dict[str, Any]:
        found = self.kubectl.get("disttrainjob", name)
        assert found is not None, f"there is no job {name}"
        return found

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.job(name).get("status", {})
        return status

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """A condition of the job; empty until it is there."""
        conditions: list[dict[str, Any]] = self.status(name).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def finished(self, name: str) -> dict[str, Any]:
        """Waits for Succeeded or Failed; the status."""

        def probe() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") in ("Succeeded", "Failed") else None

        return wait_for(f"the job {name} to finish", probe, FINISH_SECONDS)

    def says(self, name: str, kind: str, words: str) -> dict[str, Any]:
        """Waits until the condition's message has the words; the condition."""

        def probe() -> dict[str, Any] | None:
            condition = self.condition(name, kind)
            return condition if words in condition.get("message", "") else None

        return wait_for(f"{kind} of {name} to say {words!r}", probe, TOLD_SECONDS)

    def pods(self, job: str) -> dict[str, dict[str, Any]]:
        """The job's pods by name."""
        found = self.kubectl.list("pods", f"disttrain.dev/job-name={job}")
        return {pod["metadata"]["name"]: pod for pod in found}

    def ready(self, job: str) -> None:
        """Waits until every pod of the job runs and is ready."""
        self.kubectl("wait", "--for=condition=Running", f"disttrainjob/{job}", "--timeout=60s")

    def nothing_left(self, job: str) -> None:
        """Waits until nothing of the job is there any more."""
        selector = f"disttrain.dev/job-name={job}"
        wait_for("the job's objects to go", lambda: not self.kubectl.list(_CHILDREN, selector), 60)
