"""One cluster for a whole test run with the operator installed, one namespace for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.netns.cluster import Netns
from tests.cluster.netns.shared import Shared
from tests.e2e import manifests
from tests.e2e.kubectl import Kubectl
from tests.e2e.space import Space

_NUMBERS = itertools.count(1)
_MARK = "disttrain.dev/test"
_SYSTEM = "disttrain-system"
_RESULTS = manifests.ROOT / "test-results" / "e2e"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Netns]:
    """Started by the first test process that needs it, ended by the last; the operator is of the code as it is."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("the netns cluster needs Linux and root")
    shared = Shared(_say)
    try:
        if shared.first:
            _install(shared.cluster)
        yield shared.cluster
    finally:
        shared.leave()


def _install(cluster: Netns) -> None:
    kubectl = _kubectl(cluster, _SYSTEM)
    # What a killed run left; its jobs would take the machine from ours.
    kubectl("delete", "namespaces", f"--selector={_MARK}", "--ignore-not-found")
    kubectl("apply", f"--filename={manifests.ROOT / 'manifests' / 'install.yaml'}")
    kubectl("delete", "pods", "--all", "--wait=false")  # one from before the nodes got new images
    kubectl("rollout", "status", "deployment/disttrain-operator", "--timeout=120s")


def _kubectl(cluster: Netns, namespace: str) -> Kubectl:
    return Kubectl(cluster.state / "bin" / "kubectl", cluster.kubeconfig, namespace)


@pytest.fixture
def operator(cluster: Netns) -> Kubectl:
    """kubectl in the operator's namespace."""
    return _kubectl(cluster, _SYSTEM)


@pytest.fixture
def make_space(cluster: Netns, request: pytest.FixtureRequest) -> Iterator[Callable[..., Space]]:
    """Makes a namespace with labels. They go after the test; if it failed, what they hold is kept in files first."""
    made: list[Space] = []

    def make(**labels: str) -> Space:
        test = request.function.__name__.removeprefix("test_").replace("_", "-")
        name = f"e2e-{os.getpid()}-{next(_NUMBERS)}-{test}"[:60].rstrip("-")
        space = Space(_kubectl(cluster, name))
        space.kubectl.apply(manifests.namespace(name, **{_MARK: "e2e"}, **labels))
        made.append(space)
        return space

    yield make
    failed = request.node.stash.get(_FAILED, False)
    for space in made:
        if failed:
            _keep(cluster, space, _RESULTS / request.node.name)
        space.kubectl.run("delete", "namespace", space.name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def space(make_space: Callable[..., Space]) -> Space:
    return make_space()


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Tells the fixtures whether the test failed."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


def _keep(cluster: Netns, space: Space, directory: Path) -> None:
    """Writes pods, jobs, events and every log to files, and says where."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for what in ("disttrainjobs", "pods", "events", "persistentvolumeclaims", "services", "networkpolicies"):
        (directory / f"{what}.yaml").write_text(space.kubectl.run("get", what, "--output=yaml").stdout)
    for pod in space.kubectl.list("pods"):
        name = pod["metadata"]["name"]
        log = space.kubectl.run("logs", name, "--all-containers", "--prefix")
        (directory / f"pod-{name}.log").write_text(log.stdout + log.stderr)
    operator = _kubectl(cluster, _SYSTEM).run("logs", "deployment/disttrain-operator", "--tail=-1")
    (directory / "operator.log").write_text(operator.stdout + operator.stderr)
    for log_file in cluster.state.glob("*.log"):
        if log_file.name != "audit.log":
            shutil.copy2(log_file, directory)
    _say(f"kept what there was in {directory}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
