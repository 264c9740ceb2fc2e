"""DistTrain in an emulator, as `kubectl apply -f manifests/install.yaml` leaves it, but for the Deployment."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster import binaries, cache, pki, processes
from tests.cluster.emulator import Emulator, Shared
from tests.cluster.rest import Client
from tests.emulator.jobs import job
from tests.emulator.operator_process import OperatorProcess

INSTALL = Path(__file__).resolve().parents[2] / "manifests" / "install.yaml"
NAMESPACE = "disttrain-system"
ACCOUNT = "disttrain-operator"
_TOKEN_SECONDS = 24 * 3600
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Installation:
    """A control plane with DistTrain installed and its operator running; shared by a parallel test run."""

    emulator: Emulator
    operator: OperatorProcess
    programs: Path
    admin_config: str
    """The administrator's kubeconfig."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as the administrator."""
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.emulator.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)


def install(shared: Shared, say: cache.Say) -> Installation:
    """Installs and starts the operator, or finds that another process of this test run has done so."""
    emulator = shared.emulator
    kubeconfig = emulator.state / "operator.kubeconfig"
    operator, admin_config = OperatorProcess(emulator, kubeconfig), emulator.kubeconfig.read_text()
    installation = Installation(emulator, operator, binaries.ensure(say), admin_config)
    with cache.exclusive(emulator.state / "install.lock", "installing DistTrain", say):
        if not kubeconfig.exists():
            _apply(installation)
            client = _admin(emulator)
            _wait_until_enforced(client)
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(_operator_config(emulator, client))
        installation.operator.ensure_running()
    return installation


def _apply(installation: Installation) -> None:
    documents = [document for document in yaml.safe_load_all(INSTALL.read_text()) if document["kind"] != "Deployment"]
    result = installation.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert result.returncode == 0, f"kubectl apply -f {INSTALL} said: {result.stderr}"
    waited = installation.kubectl("wait", "--for=condition=Established", "crd/disttrainjobs.disttrain.dev")
    assert waited.returncode == 0, f"the CRD was not accepted: {waited.stderr}"
    # The garbage collector looks for new kinds of owners every 30 s; one that starts now knows ours from the beginning.
    state = installation.emulator.state
    for collector in processes.living(state, "kube-controller-manager"):
        processes.restart(state, collector)


def _wait_until_enforced(client: Client) -> None:
    """An admission policy takes effect a moment after it was stored."""
    shapeless = job("probe")
    shapeless["spec"]["template"]["spec"] = {"containers": []}
    path = "/apis/disttrain.dev/v1alpha1/namespaces/default/disttrainjobs?dryRun=All"
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (answer := client.post(path, shapeless)).code != 422:
        assert time.monotonic() < deadline, f"the admission policy does not take effect: {answer}"
        time.sleep(_POLL_SECONDS)


def _operator_config(emulator: Emulator, client: Client) -> str:
    """A kubeconfig with a token of the operator's ServiceAccount: exactly the permissions of the manifests."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    answer = client.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token", request)
    assert answer.code == 201, f"no token for {ACCOUNT}: {answer}"
    user = {"token": str(answer.body["status"]["token"])}
    return pki.kubeconfig(emulator.server(), emulator.state / "pki" / "ca.crt", user, NAMESPACE)


def _admin(emulator: Emulator) -> Client:
    keys = emulator.state / "pki"
    return Client(emulator.server(), keys / "ca.crt", pki.Identity(keys / "admin.crt", keys / "admin.key"))
