"""A job's ports, by packets: open for its own pods, shut for everybody else's."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.e2e import manifests
from tests.e2e.kubectl import wait_for
from tests.e2e.space import Space

_TENSORFLOW, _AGENT, _OTHER = 2222, 2223, 8080
_LISTEN = f"""
import selectors, socket
ready = selectors.DefaultSelector()
for port in ({_TENSORFLOW}, {_OTHER}):
    ready.register(socket.create_server(("", port)), selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        key.fileobj.accept()[0].close()
"""


@dataclass(frozen=True)
class Pods:
    """Two jobs whose pods listen as TensorFlow does, and a pod of neither, spread over both nodes."""

    space: Space

    def reaches(self, source: str, target: str, port: int) -> bool:
        """Whether a connection from one pod to another is established within 3 s."""
        pod = self.space.kubectl.get("pod", target)
        assert pod is not None
        probe = f"timeout 3 nc {pod['status']['podIP']} {port} </dev/null"
        return self.space.kubectl.run("exec", source, "--", "sh", "-c", probe).returncode == 0


@pytest.fixture
def pods(space: Space) -> Pods:
    jobs = [manifests.job(name, workers=2, command=["python3", "-c", _LISTEN]) for name in ("one", "two")]
    space.kubectl.apply(*jobs, manifests.stranger())
    for name in ("one", "two"):
        space.ready(name)
    space.kubectl("wait", "--for=condition=Ready", "pod/stranger", "--timeout=60s")
    found = Pods(space)
    wait_for("a listener", lambda: found.reaches("one-worker-0", "one-worker-1", _TENSORFLOW), 30)
    return found


def test_a_jobs_ports_are_open_for_its_own_pods_alone(pods: Pods) -> None:
    target = "one-worker-1"
    assert pods.reaches("one-worker-0", target, _TENSORFLOW)
    assert pods.reaches("one-worker-0", target, _AGENT)
    for source in ("two-worker-0", "two-worker-1", "stranger"):
        assert not pods.reaches(source, target, _TENSORFLOW), source
        assert not pods.reaches(source, target, _AGENT), source


def test_every_other_port_of_a_job_stays_as_open_as_it_was(pods: Pods) -> None:
    assert pods.reaches("stranger", "one-worker-1", _OTHER)
