"""The whole operator as a process, with kopf in it, against a fake API server: it watches, writes, stops, gives up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.unit.controller.fake_apiserver import Answer, FakeApiServer
from tests.unit.controller.fakes import JOB_UID, job_manifest

DEADLINE_SECONDS = 60
RUN = "import sys; from disttrain.controller.main import main; sys.exit(main())"


class Operator:
    """A running operator and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(json.loads(line))

    async def wait(self) -> int:
        async with asyncio.timeout(DEADLINE_SECONDS):
            code = await self.process.wait()
            await self._reading
            return code

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.wait()

    async def get(self, port: str, path: str) -> tuple[int, str]:
        await eventually(lambda: any(line["message"] == "started" for line in self.lines))
        started = next(line for line in self.lines if line["message"] == "started")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{started[port]}{path}") as response,
        ):
            return response.status, await response.text()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the operator is another process: there is no event to wait for


@asynccontextmanager
async def started(kubeconfig: Path, *flags: str) -> AsyncIterator[Operator]:
    """Start it with free ports on loopback; what is left of it at the end is killed."""
    arguments = ["--kubeconfig", str(kubeconfig), "--health-port", "0", "--metrics-port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        RUN,
        *arguments,
        "--listen-address",
        "127.0.0.1",
        *flags,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("DISTTRAIN_")},
    )
    operator = Operator(process)
    try:
        yield operator
    finally:
        if process.returncode is None:
            process.kill()
            await operator.wait()
        print(*operator.lines, sep="\n")  # shown when the test fails


@pytest.fixture
async def operator(server: FakeApiServer, kubeconfig: Callable[..., Path]) -> AsyncIterator[Operator]:
    async with started(kubeconfig()) as operator:
        yield operator


def pods(server: FakeApiServer) -> set[str]:
    return {name for plural, _, name in server.objects if plural == "pods"}


def status(server: FakeApiServer) -> dict[str, object]:
    found: dict[str, object] = server.objects["disttrainjobs", "ml", "recsys"].get("status") or {}
    return found


BOTH = {"recsys-worker-0", "recsys-worker-1"}


async def test_a_job_becomes_its_objects_without_a_read(operator: Operator, server: FakeApiServer) -> None:
    server.put(job_manifest())
    await eventually(lambda: pods(server) == BOTH and status(server).get("ready") == "0/2")
    made = {(plural, name) for plural, _, name in server.objects if plural != "events"}
    assert made == {
        ("disttrainjobs", "recsys"),
        ("services", "recsys"),
        ("networkpolicies", "recsys"),
        *(("pods", name) for name in BOTH),
    }
    lists = [asked.path for asked in server.requests("GET", "") if "watch" not in asked.query]
    assert not [path for path in lists if "/namespaces/ml/" in path], "nothing is read for one job"
    assert {asked.path.rsplit("/", 1)[-1] for asked in server.requests("PATCH", "")} == {"status"}


async def test_pods_services_and_policies_are_watched_by_label(operator: Operator, server: FakeApiServer) -> None:
    await eventually(lambda: len(server.watched()) == 4)
    selectors = {
        plural: {asked.query.get("labelSelector") for asked in server.requests("GET", plural)}
        for plural in ("disttrainjobs", "pods", "services", "networkpolicies")
    }
    assert selectors == {
        "disttrainjobs": {None},
        "pods": {"disttrain.dev/job-name"},
        "services": {"disttrain.dev/job-name"},
        "networkpolicies": {"disttrain.dev/job-name"},
    }


async def test_only_the_namespaces_given_are_watched(server: FakeApiServer, kubeconfig: Callable[..., Path]) -> None:
    async with started(kubeconfig(), "--namespaces", "ml,dev") as operator:
        await eventually(lambda: len(server._watchers) == 8)
        paths = {asked.path for asked in server.requests("GET", "pods")}
        assert paths == {"/api/v1/namespaces/ml/pods", "/api/v1/namespaces/dev/pods"}
        assert await operator.stop() == 0


async def test_a_pod_that_went_away_while_the_watch_was_broken_is_made_again(
    operator: Operator, server: FakeApiServer
) -> None:
    server.put(job_manifest())
    await eventually(lambda: pods(server) == BOTH and "pods" in server.watched())
    old = {name: server.objects["pods", "ml", name]["metadata"]["uid"] for name in BOTH}
    server.remove("pods", "ml", "recsys-worker-0", tell=False)
    server.expire("pods")
    await eventually(
        lambda: (
            pods(server) == BOTH
            and server.objects["pods", "ml", "recsys-worker-0"]["metadata"]["uid"] != old["recsys-worker-0"]
        )
    )


async def test_a_create_whose_answer_was_lost_is_not_done_twice(operator: Operator, server: FakeApiServer) -> None:
    lost = Answer(504, {"reason": "Timeout", "message": "lost"}, after_commit=True)
    server.answer_wrongly("POST", "pods", lost, lost)
    server.put(job_manifest())
    await eventually(lambda: status(server).get("ready") == "0/2" and pods(server) == BOTH)
    owners = {server.objects["pods", "ml", name]["metadata"]["ownerReferences"][0]["uid"] for name in BOTH}
    assert owners == {JOB_UID}


async def test_a_broken_job_does_not_keep_another_from_running(operator: Operator, server: FakeApiServer) -> None:
    broken = job_manifest(uid="broken-uid")
    broken["metadata"]["name"] = "broken"
    broken["spec"] = {"strategy": ["what", {"is": "this"}], "roles": None}
    server.put(broken)
    server.put(job_manifest())
    await eventually(lambda: pods(server) == BOTH)
    await eventually(lambda: server.objects["disttrainjobs", "ml", "broken"]["status"].get("phase") == "Failed")


async def test_it_is_ready_when_all_is_listed_and_tells_its_numbers(operator: Operator, server: FakeApiServer) -> None:
    await eventually(lambda: len(server.watched()) == 4)
    assert (await operator.get("health_port", "/readyz"))[0] == 200
    assert (await operator.get("health_port", "/healthz"))[0] == 200
    code, text = await operator.get("metrics_port", "/metrics")
    assert code == 200
    assert 'disttrain_watch_age_seconds{resource="pods"}' in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_0(operator: Operator, server: FakeApiServer, number: signal.Signals) -> None:
    server.put(job_manifest())
    await eventually(lambda: pods(server) == BOTH)
    operator.process.send_signal(number)
    assert await operator.wait() == 0
    assert operator.lines[-1]["message"] == "stopped"


async def test_it_stops_with_0_even_before_it_has_begun_to_watch(
    server: FakeApiServer, kubeconfig: Callable[..., Path]
) -> None:
    async with started(kubeconfig()) as operator:
        await eventually(lambda: any(line["message"] == "started" for line in operator.lines))
        assert await operator.stop() == 0


async def test_it_ends_with_1_when_the_crd_is_taken_away(operator: Operator, server: FakeApiServer) -> None:
    await eventually(lambda: len(server.watched()) == 4)
    server.answer_wrongly("GET", "disttrainjobs", Answer(404, {"kind": "Status", "message": "page not found"}))
    server.hang_up()
    assert await operator.wait() == 1
    assert str(operator.lines[-1]["message"]).startswith("watching has ended")


async def test_it_ends_with_1_when_its_credentials_are_taken_away(operator: Operator, server: FakeApiServer) -> None:
    await eventually(lambda: len(server.watched()) == 4)
    server.token = "another"
    server.hang_up()
    assert await operator.wait() == 1
    assert "no longer accepts the credentials" in str(operator.lines[-1]["message"])


async def test_an_api_server_that_is_away_for_a_while_does_not_end_it(
    operator: Operator, server: FakeApiServer
) -> None:
    await eventually(lambda: len(server.watched()) == 4)
    away = Answer(503, {"kind": "Status", "reason": "ServiceUnavailable"})
    for plural in ("disttrainjobs", "pods"):
        server.answer_wrongly("GET", plural, away, away, away)
    server.hang_up()
    server.put(job_manifest())
    await eventually(lambda: pods(server) == BOTH)


@pytest.mark.parametrize(("fault", "code"), [("crd", os.EX_UNAVAILABLE), ("permission", os.EX_NOPERM)])
async def test_what_it_cannot_begin_with_is_one_line_and_an_exit_code(
    server: FakeApiServer, kubeconfig: Callable[..., Path], fault: str, code: int
) -> None:
    server.has_crd = fault != "crd"
    server.denied = {"create pods"} if fault == "permission" else set()
    async with started(kubeconfig()) as operator:
        assert await operator.wait() == code
        assert [line["level"] for line in operator.lines] == ["error"]


async def test_a_kubeconfig_that_is_not_there_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    async with started(tmp_path / "nowhere") as operator:
        assert await operator.wait() == os.EX_CONFIG
        assert [line["level"] for line in operator.lines] == ["error"]


async def test_a_port_that_is_taken_is_one_line_and_an_exit_code(
    server: FakeApiServer, kubeconfig: Callable[..., Path]
) -> None:
    async with started(kubeconfig(), "--health-port", str(server.server.port)) as operator:
        assert await operator.wait() == os.EX_CONFIG
        assert f"port {server.server.port}" in str(operator.lines[-1]["message"])
