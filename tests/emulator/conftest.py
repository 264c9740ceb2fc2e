"""One control plane and one operator for a whole test run, one namespace for each test."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.cluster.emulator import Shared
from tests.emulator import turns
from tests.emulator.audit import AuditLog
from tests.emulator.installation import Installation, install
from tests.emulator.kube import RefusedError, connect
from tests.emulator.operator_process import OperatorProcess
from tests.emulator.space import KINDS, Space
from tests.emulator.watching import Watches

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def installation(testrun_uid: str, pytestconfig: pytest.Config) -> Iterator[Installation]:
    """Started by the first test process that needs it, ended by the last."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        """Not captured: a first build takes minutes, and silence looks like a fault."""
        with capture.global_and_fixture_disabled():
            print(line, file=sys.stderr, flush=True)

    shared = Shared(f"test-{testrun_uid[:12]}", say)
    try:
        yield install(shared, say)
    finally:
        shared.leave()


@pytest.fixture
def turn(request: pytest.FixtureRequest, installation: Installation) -> Iterator[None]:
    """A test that asks for `operator` has it for itself; all others share it."""
    mode = turns.alone if "operator" in request.fixturenames else turns.shared
    with mode(installation.emulator.state):
        yield


@pytest.fixture
def operator(turn: None, installation: Installation) -> Iterator[OperatorProcess]:
    """The operator, to be killed and started at will. No other test runs meanwhile."""
    yield installation.operator
    installation.operator.ensure_running()


@pytest.fixture
def audit(turn: None, installation: Installation) -> AuditLog:
    """The API server's audit log from the test's beginning on."""
    return AuditLog(installation.emulator.audit_log)


@pytest.fixture
async def space(
    request: pytest.FixtureRequest, turn: None, installation: Installation, worker_id: str
) -> AsyncIterator[Space]:
    """A namespace of the test's own. After the test: no denied request of the operator's, no error in its log."""
    name = f"{worker_id}-{next(_NUMBERS)}-{request.function.__name__.removeprefix('test_').replace('_', '-')}"[:55]
    name = name.rstrip("-")
    audit, log_begin = AuditLog(installation.emulator.audit_log), installation.operator.size()
    async with connect(installation.admin_config) as kube:
        await kube.create_namespace(name)
        async with Watches(kube, name, KINDS) as watches:
            space = Space(name, kube, watches, installation)
            accounts = space.watch("ServiceAccount").objects
            await space.until(lambda: "default" in accounts, "the namespace has its ServiceAccount")
            yield space
        await _remove_jobs(space)
        await kube.delete_namespace(name)
    denied = [each for each in audit.requests() if each.denied and each.namespace in ("", name)]
    assert not denied, f"the operator asked for what manifests/ do not allow: {denied}"
    errors = [line for line in installation.operator.lines(log_begin) if _is_error(line, name)]
    assert not errors, f"the operator logged errors: {json.dumps(errors, indent=1)}"


async def _remove_jobs(space: Space) -> None:
    """Jobs first: a namespace that goes takes pods away from jobs that still want them."""
    for job in await space.kube.list("DistTrainJob", space.name):
        try:
            await space.delete(job["metadata"]["name"])
        except RefusedError as error:
            if error.code != 404:
                raise


def _is_error(line: dict[str, object], namespace: str) -> bool:
    """An error about this namespace or about none (that is, about the operator)."""
    severe = str(line.get("level", "")).lower() in ("error", "critical") or "Traceback" in str(line.get("message"))
    return severe and line.get("namespace", namespace) == namespace
