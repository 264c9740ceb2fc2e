"""What each program of the control plane is told: its command line."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import pki

# In the order in which they start. They end in the opposite order.
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMPONENTS = (*CONTROL_PLANE, "kwok")

LOOPBACK = "127.0.0.1"
SERVICE_CIDR = "10.96.0.0/16"
# For benchmarks between network devices (RFC 2544): nothing answers there, so the operator never reaches a stranger.
POD_CIDR = "198.18.0.0/16"
_HERE = Path(__file__).parent
_QPS = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class Ports:
    """etcd's are on 127.0.0.1, the API server's on the address of the Setup."""

    etcd: int
    etcd_peer: int
    api: int


@dataclass(frozen=True)
class Setup:
    """One start of a control plane: where its files are and who everybody is."""

    state: Path
    programs: Path
    ports: Ports
    authority: Path
    server_identity: pki.Identity
    service_accounts: pki.Identity
    admin: pki.Identity
    address: str = LOOPBACK
    service_cidr: str = SERVICE_CIDR

    @classmethod
    def create(
        cls,
        authority: pki.Authority,
        state: Path,
        programs: Path,
        ports: Ports,
        *,
        address: str = LOOPBACK,
        service_cidr: str = SERVICE_CIDR,
    ) -> Setup:
        """Makes keys, certificates and the components' kubeconfigs in the authority's directory, `<state>/pki`."""
        service_address = str(ipaddress.ip_network(service_cidr)[1])  # the API server takes the first for itself
        setup = cls(
            state,
            programs,
            ports,
            authority.certificate,
            authority.server("kube-apiserver", address, service_address),
            authority.key_pair("service-accounts"),
            authority.client("admin", "system:masters"),
            address,
            service_cidr,
        )
        users = {
            "kube-controller-manager": authority.client("system:kube-controller-manager"),
            "kube-scheduler": authority.client("system:kube-scheduler"),
            "kwok": authority.client("kwok", "system:masters"),
        }
        for name, identity in users.items():
            text = pki.kubeconfig(setup.server, authority.certificate, pki.certificate_user(identity))
            setup.kubeconfig(name).write_text(text)
        return setup

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports.api}"

    def kubeconfig(self, component: str) -> Path:
        return self.state / "pki" / f"{component}.kubeconfig"


_EMULATOR_FLAGS = {
    "kube-apiserver": (
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",  # the Service `kubernetes` may not have a loopback endpoint
    ),
    # Nobody sends heartbeats for the nodes.
    "kube-controller-manager": ("--node-monitor-grace-period=24h",),
}


def commands(setup: Setup) -> dict[str, list[str]]:
    """Component -> command line, of an emulator."""
    return {**control_plane(setup, _EMULATOR_FLAGS), "kwok": [str(setup.programs / "kwok"), *_kwok(setup)]}


def control_plane(setup: Setup, more: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Component -> command line; `more` are flags by component."""
    arguments = {
        "etcd": _etcd(setup),
        "kube-apiserver": _api_server(setup),
        "kube-controller-manager": _controller_manager(setup),
        "kube-scheduler": [f"--kubeconfig={setup.kubeconfig('kube-scheduler')}", *_alone(), *_QPS],
    }
    return {name: [str(setup.programs / name), *arguments[name], *more.get(name, ())] for name in CONTROL_PLANE}


def _etcd(setup: Setup) -> list[str]:
    client = f"http://127.0.0.1:{setup.ports.etcd}"
    peer = f"http://127.0.0.1:{setup.ports.etcd_peer}"
    return [
        "--name=emulator",
        f"--data-dir={setup.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=emulator={peer}",
        "--unsafe-no-fsync",  # the data lives no longer than the process
        "--log-level=warn",
    ]


def _api_server(setup: Setup) -> list[str]:
    identity, accounts = setup.server_identity, setup.service_accounts
    return [
        f"--etcd-servers=http://127.0.0.1:{setup.ports.etcd}",
        f"--bind-address={setup.address}",
        f"--secure-port={setup.ports.api}",
        f"--service-cluster-ip-range={setup.service_cidr}",
        f"--tls-cert-file={identity.certificate}",
        f"--tls-private-key-file={identity.key}",
        f"--client-ca-file={setup.authority}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        f"--audit-policy-file={_HERE / 'audit-policy.yaml'}",
        f"--audit-log-path={setup.state / 'audit.log'}",
        "--audit-log-mode=blocking",  # a request is in the log before it is answered
        "--audit-log-maxsize=4096",  # MB; a rotated file would be lost to a reader
    ]


def _controller_manager(setup: Setup) -> list[str]:
    return [
        f"--kubeconfig={setup.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={setup.service_accounts.key}",
        f"--root-ca-file={setup.authority}",
        # Without it the controllers share one identity that may not patch nodes: the not-ready taint would stay.
        "--use-service-account-credentials",
        *_alone(),
        *_QPS,
    ]


def _kwok(setup: Setup) -> list[str]:
    return [
        f"--kubeconfig={setup.kubeconfig('kwok')}",
        "--manage-all-nodes",
        # No leases: with them a node is managed only once its lease is taken.
        "--node-lease-duration-seconds=0",
        f"--cidr={POD_CIDR}",
        f"--config={_HERE / 'stages.yaml'}",
    ]


def _alone() -> list[str]:
    return ["--leader-elect=false", "--secure-port=0"]
