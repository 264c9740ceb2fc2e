"""The API server and the kubelet of `disttrain run`: pods and children in memory, processes on this machine.

It decides nothing. `create` and `delete` do what a plan says, `observed` tells what has become of it, and `changed` is
set whenever that may differ from what was told last.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, Self

from disttrain import names
from disttrain.core.model import Child, Delete, Manifest, Observed, Report
from disttrain.core.observe import child_from_manifest, pod_from_manifest, report_from_status
from disttrain.local import kubelet
from disttrain.local.jobdir import JobDir
from disttrain.local.launch import Launch
from disttrain.local.probe import fetch_status
from disttrain.local.process import AgentProcess
from disttrain_agent import contract

POLL_SECONDS: Final = 0.5
Clock = Callable[[], datetime]


class Placement(Protocol):
    """Turns a rendered pod into a process on this machine."""

    def launch(self, pod: Manifest, termination_log: Path, parent_fd: int) -> Launch:
        """What to start for it."""
        ...

    def agent_address(self, role: str, index: int) -> str:
        """Where its agent answers."""
        ...


class LocalPod:
    """A pod and its process. `pod` is what the core observes; `last_report` the agent's last, kept after its end."""

    def __init__(self, body: Manifest, process: AgentProcess, log: Path) -> None:
        self.process = process
        self.log = log
        self.last_report: Report | None = None
        self.become(body)

    def become(self, body: Manifest) -> None:
        """Take over what the kubelet or the API server wrote."""
        pod = pod_from_manifest(body)
        if pod is None:
            raise RuntimeError(f"pod {body['metadata'].get('name')} is not one of a DistTrainJob")
        self.body, self.pod = body, pod


class Node:
    """Use as an async context manager: on the way out every process that still runs is killed and waited for."""

    def __init__(self, directory: JobDir, placement: Placement, parent_fd: int, clock: Clock) -> None:
        self.changed = asyncio.Event()
        self.latest: dict[tuple[str, int], LocalPod] = {}
        """The newest pod of every replica, also one that is gone."""
        self._directory = directory
        self._placement = placement
        self._parent_fd = parent_fd
        self._clock = clock
        self._pods: dict[str, LocalPod] = {}
        self._children: dict[tuple[str, str], Child] = {}
        self._tasks = asyncio.TaskGroup()
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._poller = self._tasks.create_task(self._poll())
        return self

    async def __aexit__(self, *details: object) -> None:
        self.kill_all()
        if self._poller is not None:
            self._poller.cancel()
        # The group waits for the watchers, which end with their processes. Not told of an error in the body: it would
        # cancel the watchers, and the processes would go unwaited.
        await self._tasks.__aexit__(None, None, None)

    def observed(self) -> Observed:
        """All there is, as the core wants it. A deleted pod that has ended is seen so once, then gone."""
        pods = [(one.pod, one.last_report) for one in self._pods.values()]
        reports = {(pod.role, pod.index): report for pod, report in pods if pod.running and report is not None}
        for pod, _ in pods:
            if pod.deleting and pod.exit is not None:
                self._forget(pod.name)
        return Observed(tuple(pod for pod, _ in pods), tuple(self._children.values()), reports)

    def running(self) -> Iterator[LocalPod]:
        """The pods whose process runs."""
        return (one for one in self._pods.values() if one.pod.running)

    async def create(self, manifest: Manifest) -> None:
        """Start a pod, or note a Service or NetworkPolicy: on loopback they need nothing done."""
        kind = manifest["kind"]
        if kind == "Pod":
            await self._start(manifest)
        else:
            child = child_from_manifest(kind, _with_uid(manifest))
            self._children[kind, child.name] = child
        self.changed.set()

    async def _start(self, manifest: Manifest) -> None:
        name, labels = manifest["metadata"]["name"], manifest["metadata"]["labels"]
        if name in self._pods:
            raise RuntimeError(f"the plan makes pod {name}, which exists")
        attempt = int(labels[names.LABEL_ATTEMPT])
        termination = self._directory.termination(name, attempt)
        launch = self._placement.launch(manifest, termination, self._parent_fd)
        log = self._directory.log(name, attempt)
        process = await AgentProcess.start(launch, log, self._parent_fd)
        one = LocalPod(kubelet.started(_with_uid(manifest)), process, log)
        self._pods[name] = self.latest[labels[names.LABEL_ROLE], int(labels[names.LABEL_INDEX])] = one
        _ = self._tasks.create_task(self._watch(one, termination))

    async def _watch(self, one: LocalPod, termination: Path) -> None:
        """Note the end of a pod's process as a kubelet would: exit code, and the agent's last word."""
        code = await one.process.wait()
        one.become(kubelet.ended(one.body, code, _read(termination), self._clock()))
        if one.pod.exit is not None and one.pod.exit.report is not None:
            one.last_report = one.pod.exit.report
        self.changed.set()

    def delete(self, order: Delete) -> None:
        """Stop and remove exactly this object; a pod stays, `deleting`, until its process has ended."""
        if order.kind != "Pod":
            child = self._children.get((order.kind, order.name))
            if child is not None and child.uid == order.uid:
                del self._children[order.kind, order.name]
                self.changed.set()
            return
        one = self._pods.get(order.name)
        if one is None or one.pod.uid != order.uid or one.pod.deleting:
            return
        one.become(kubelet.deleted(one.body, self._clock()))
        if one.pod.running:
            _ = self._tasks.create_task(one.process.stop(kubelet.grace_seconds(one.body)))
        else:
            self._forget(one.pod.name)
        self.changed.set()

    def stop_all(self) -> None:
        """Delete every pod that runs."""
        for one in list(self.running()):
            self.delete(Delete("Pod", one.pod.name, one.pod.uid))

    def kill_all(self) -> None:
        """SIGKILL to everything that runs."""
        for one in self.running():
            one.process.kill()

    def _forget(self, name: str) -> None:
        del self._pods[name]
        self.changed.set()

    async def _poll(self) -> None:
        """Ask every agent how far it is. For display and progress only: what a process decides by, it exits by."""
        while True:
            await asyncio.gather(*(self._ask(one) for one in self.running()))
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, one: LocalPod) -> None:
        data = await fetch_status(self._placement.agent_address(one.pod.role, one.pod.index))
        # The port outlives the process: an answer may be a predecessor's or come from after the end.
        if data is None or not one.pod.running or data.get("attempt") != one.pod.attempt:
            return
        report = report_from_status(data)
        if report != one.last_report:
            one.last_report = report
            self.changed.set()


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_bytes()[: contract.TERMINATION_LOG_MAX_BYTES].decode("utf-8", errors="replace")
    return ""


def _with_uid(manifest: Manifest) -> Manifest:
    """As the API server does on create."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": str(uuid.uuid4())}}
