"""kubectl, as a person uses it, and waiting for what it shows."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

_POLL_SECONDS = 0.25
_T = TypeVar("_T")


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl against one cluster and one namespace."""

    program: Path
    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """Its output. Raises AssertionError with its words if it fails."""
        result = self.run(*arguments, text=text)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr.strip()}"
        return result.stdout

    def run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Output and exit code, whatever they are."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def apply(self, *manifests: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "--filename=-", text=json.dumps(items))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object, or None if there is none."""
        text = self("get", kind, name, "--ignore-not-found", "--output=json")
        found: dict[str, Any] | None = json.loads(text) if text else None
        return found

    def list(self, kinds: str, selector: str = "") -> list[dict[str, Any]]:
        text = self("get", kinds, f"--selector={selector}", "--output=json")
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items


def wait_for(what: str, probe: Callable[[], _T | None], seconds: float) -> _T:
    """The first true answer of `probe`. Raises AssertionError after the deadline, with its last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}; last seen: {answer!r}"
        time.sleep(_POLL_SECONDS)
    return answer
