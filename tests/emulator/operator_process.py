"""The operator under test: `disttrain-operator` as a process of the emulator, as its own ServiceAccount."""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import processes
from tests.cluster.emulator import Emulator

COMPONENT = "operator"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class OperatorProcess:
    """At most one for an emulator, shared by all who use it."""

    emulator: Emulator
    kubeconfig: Path

    @property
    def log(self) -> Path:
        return processes.log_path(self.emulator.state, COMPONENT)

    def ensure_running(self) -> None:
        """Starts it unless it runs, and waits until it serves jobs."""
        if not processes.living(self.emulator.state, COMPONENT):
            self.start()

    def start(self) -> None:
        """Starts it and waits until it serves jobs. Fails with its last words if it does not come so far."""
        program = Path(sys.executable).parent / "disttrain-operator"
        begin = self.log.stat().st_size if self.log.exists() else 0
        arguments = ["--kubeconfig", str(self.kubeconfig), "--listen-address", "127.0.0.1"]
        ports = ["--health-port", "0", "--metrics-port", "0"]
        process = processes.spawn(self.emulator.state, COMPONENT, [program, *arguments, *ports])
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready(begin):
            if not processes.alive(process) or time.monotonic() > deadline:
                tail = processes.log_tail(self.emulator.state, COMPONENT)
                raise AssertionError(f"the operator did not come up; its last words:\n{tail}")
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL, as a node's end would; returns when it is gone."""
        processes.kill(processes.living(self.emulator.state, COMPONENT))

    def signal(self, number: signal.Signals) -> None:
        for process in processes.living(self.emulator.state, COMPONENT):
            processes.send(process, number)

    def running(self) -> bool:
        return bool(processes.living(self.emulator.state, COMPONENT))

    def probe(self, path: str = "/healthz") -> tuple[int, str]:
        """Status code and body of its health port; (0, why) if nobody answers."""
        started = [line for line in self.lines() if line.get("message") == "started"]
        if not started:
            return 0, "not started"
        return _get(f"http://127.0.0.1:{started[-1]['health_port']}{path}")

    def lines(self, begin: int = 0) -> list[dict[str, object]]:
        """Its log from an offset on; a line that is not JSON (a traceback) becomes {"message": line}."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(begin)
            return [_line(line) for line in file.read().decode(errors="replace").splitlines() if line]

    def size(self) -> int:
        """The log's length in bytes, for `lines`."""
        return self.log.stat().st_size if self.log.exists() else 0

    def _ready(self, begin: int) -> bool:
        started = [line for line in self.lines(begin) if line.get("message") == "started"]
        return bool(started) and _get(f"http://127.0.0.1:{started[-1]['health_port']}/readyz")[0] == 200


def _line(text: str) -> dict[str, object]:
    try:
        data = json.loads(text)
    except ValueError:
        return {"message": text}
    return data if isinstance(data, dict) else {"message": text}


def _get(url: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)
