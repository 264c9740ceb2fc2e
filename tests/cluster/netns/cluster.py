"""The netns cluster: a control plane on the machine and two nodes in namespaces, on a bridge that only they are on."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import binaries, cache, components, pki, processes
from tests.cluster.components import Ports, Setup
from tests.cluster.errors import ClusterError
from tests.cluster.images import golden
from tests.cluster.images.oci import BlobStore, Image
from tests.cluster.images.recipes import Builder, Images
from tests.cluster.netns import addons, cgroups, machine, network
from tests.cluster.netns.layout import API_PORT, BRIDGE_ADDRESS, NODES, POD_CIDRS, SERVICE_CIDR, Node
from tests.cluster.netns.node import NodeSetup
from tests.cluster.netns.node_config import CONTAINERD_SOCKET, NodeFiles
from tests.cluster.rest import Client

_LOCK = Path("/run/lock/disttrain-netns.lock")  # the names that it guards are the machine's, not the user's
_CHECKOUT = Path(__file__).resolve().parents[3]
_START_SECONDS = 120.0
_POLL_SECONDS = 0.1
_VOLUMES = "volumes"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NODE_COMPONENTS = ("containerd", "kubelet", "kube-proxy", "netpol")


@dataclass(frozen=True)
class Materials:
    """What a cluster is made of: programs and images, of the code as it is now."""

    programs: dict[str, Path]
    images: Images
    blobs: BlobStore

    @classmethod
    def gather(cls, root: Path, say: cache.Say) -> Materials:
        """Builds what is missing: half an hour the first time, a second later on. Raises ClusterError."""
        machine.require(say)
        programs = find_programs(say)
        with cache.exclusive(root.parent / "images.lock", "making images", say):
            builder = Builder(root, programs, say)
            return cls(programs, builder.images(), builder.blobs)


@dataclass(frozen=True)
class Netns:
    """The one netns cluster of this machine, running or not. Methods may be called from any process at any time."""

    root: Path

    @classmethod
    def here(cls) -> Netns:
        return cls(cache.root() / "netns")

    @property
    def state(self) -> Path:
        return self.root / "run"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's. Exists exactly while the cluster is up."""
        return self.state / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://{BRIDGE_ADDRESS}:{API_PORT}"

    @contextmanager
    def locked(self, say: cache.Say) -> Iterator[None]:
        """Nobody else starts, changes or stops it meanwhile."""
        _LOCK.parent.mkdir(parents=True, exist_ok=True)
        with cache.exclusive(_LOCK, "starting or stopping the netns cluster", say):
            yield

    def status(self) -> dict[str, int]:
        """Component -> pid of what runs; a node's are called `<node>-<component>`."""
        pids: dict[str, int] = {}
        for process in processes.living(self.state):
            pids[process.component] = min(process.pid, pids.get(process.component, process.pid))
        return pids

    def healthy(self) -> bool:
        """Whether it is up: every component runs and the API server says that it is ready."""
        nodes = {f"{node.name}-{component}" for node in NODES for component in _NODE_COMPONENTS}
        wanted = {*components.CONTROL_PLANE, _VOLUMES, *nodes}
        return self.kubeconfig.exists() and wanted <= set(self.status()) and self.client().get("/readyz").code == 200

    def client(self) -> Client:
        keys = self.state / "pki"
        return Client(self.server, keys / "ca.crt", pki.Identity(keys / "admin.crt", keys / "admin.key"))

    def up(self, say: cache.Say) -> None:
        """Starts it unless it is up, and gives the nodes the images of the code as it is now. Raises ClusterError."""
        materials = Materials.gather(self.root, say)
        with self.locked(say):
            self.up_locked(materials, say)

    def up_locked(self, materials: Materials, say: cache.Say) -> bool:
        """As `up`, for a caller that holds the lock. Whether it had to be started."""
        store = golden.ensure(self.root, materials.images.base, materials.blobs, materials.programs, say)
        start = not self.healthy()
        if start:
            self.down_locked(say)
            _Start(self, materials.programs, store, say).run()
        self._load(materials, say)
        return start

    def down(self, say: cache.Say) -> None:
        """Ends it and removes all that it made. Nothing happens if it is not there."""
        with self.locked(say):
            self.down_locked(say)

    def down_locked(self, say: cache.Say) -> None:
        """As `down`, for a caller that holds the lock."""
        if self.state.exists():
            say("netns cluster: removing it")
        processes.kill([process for process in processes.living(self.state) if process.pid != os.getpid()])
        for node in NODES:
            self._remove_namespaces(node)
        network.delete_bridge()
        shutil.rmtree(self.state, ignore_errors=True)

    def crash(self, node: Node) -> None:
        """The node loses its power: everything on it ends at once. Its disk stays."""
        mine = [process for process in processes.living(self.state) if _belongs(process, node)]
        processes.kill(mine)
        self._remove_namespaces(node)

    def start_node(self, node: Node) -> None:
        """Starts a crashed node with the disk that it had. Raises ClusterError if it runs."""
        if any(_belongs(process, node) for process in processes.living(self.state)):
            raise ClusterError(f"{node.name} is running")
        boot_node(self, node)

    def network_file(self, node: Node) -> Path:
        """The node's network namespace."""
        return self.state / f"{node.name}.network"

    def socket(self, node: Node) -> str:
        """The node's containerd, as seen from the machine. Raises ClusterError if it does not run."""
        pid = self.status().get(f"{node.name}-containerd")
        if pid is None:
            raise ClusterError(f"containerd does not run on {node.name}")
        return f"/proc/{pid}/root{CONTAINERD_SOCKET}"

    def _remove_namespaces(self, node: Node) -> None:
        network.delete_node(node, self.network_file(node))
        cgroups.remove(node.cgroup)

    def _load(self, materials: Materials, say: cache.Say) -> None:
        start, images = time.monotonic(), materials.images
        for node in NODES:
            ctr: list[str | Path] = [materials.programs["ctr"], "--address", self.socket(node)]
            golden.load(images.code, materials.blobs, images.base, ctr)
        sizes = ", ".join(_describe(image) for image in images.code)
        say(f"images of the code loaded in {time.monotonic() - start:.1f} s: {sizes}")


def _describe(image: Image) -> str:
    name = image.name.rpartition("/")[2].partition(":")[0]
    return f"{name} {image.size / 1e6:.0f} MB (code {image.layers[-1].size / 1e6:.1f} MB)"


def find_programs(say: cache.Say) -> dict[str, Path]:
    """Program or component -> path, in one directory per module; built now if need be."""
    found = {}
    for module in binaries.NODE_MODULES:
        directory = binaries.ensure(say, module)
        for program in module.programs:
            found.update({name: directory / name for name in (program.name, *program.components)})
    return found


def boot_node(cluster: Netns, node: Node) -> None:
    """Makes the node's namespaces and starts its process 1, by the setup that is in its directory."""
    network.create_node(node, cluster.network_file(node))
    cgroups.create(node.cgroup)
    file = cluster.state / node.name / "setup.json"
    command = [sys.executable, "-m", "tests.cluster.netns.node", "boot", str(file)]
    processes.spawn(cluster.state, node.name, command, PYTHONPATH=str(_CHECKOUT))


def _belongs(process: processes.Process, node: Node) -> bool:
    return process.component == node.name or process.component.startswith(f"{node.name}-")


class _Start:
    """One start, from nothing to ready."""

    def __init__(self, cluster: Netns, programs: Mapping[str, Path], store: Path, say: cache.Say) -> None:
        self._cluster = cluster
        self._programs = programs
        self._store = store
        self._say = say
        self._began = time.monotonic()
        self._started: list[processes.Process] = []

    def run(self) -> None:
        try:
            self._run()
        except BaseException:
            self._cluster.down_locked(self._say)
            raise
        self._say(f"netns cluster: up at {self._cluster.server} in {time.monotonic() - self._began:.1f} s")

    def _run(self) -> None:
        cluster, state = self._cluster, self._cluster.state
        state.mkdir(mode=0o700)
        (state / "bin").mkdir()
        for name, path in self._programs.items():
            (state / "bin" / name).symlink_to(path)
        network.create_bridge()
        authority = pki.Authority(state / "pki")
        etcd, etcd_peer = _free_ports(2)
        ports = Ports(etcd, etcd_peer, API_PORT)
        setup = Setup.create(authority, state, state / "bin", ports, address=BRIDGE_ADDRESS, service_cidr=SERVICE_CIDR)
        lines = components.control_plane(setup, _flags(authority))
        client = cluster.client()
        self._launch(lines, "etcd", "kube-apiserver")
        for node in NODES:
            self._prepare_node(node, setup, authority)
            boot_node(cluster, node)
        self._wait("the API server to be ready", lambda: client.get("/readyz").code == 200)
        addons.create(client)
        (state / "api-ready").touch()
        self._launch(lines, "kube-controller-manager", "kube-scheduler")
        volumes = [sys.executable, "-m", "tests.cluster.netns.volumes"]
        arguments = [cluster.server, str(state / "pki"), str(state / "volumes")]
        self._started.append(processes.spawn(state, _VOLUMES, [*volumes, *arguments], PYTHONPATH=str(_CHECKOUT)))
        self._wait("the nodes to be Ready", lambda: _ready_nodes(client) == len(NODES))
        self._wait("cluster DNS", lambda: addons.dns_ready(client))
        kubeconfig = pki.kubeconfig(cluster.server, setup.authority, pki.certificate_user(setup.admin))
        partial = cluster.kubeconfig.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(kubeconfig)
        partial.rename(cluster.kubeconfig)

    def _launch(self, lines: Mapping[str, Sequence[str]], *names: str) -> None:
        self._started.extend(processes.spawn(self._cluster.state, name, lines[name]) for name in names)

    def _prepare_node(self, node: Node, setup: Setup, authority: pki.Authority) -> None:
        """The node's disk: images, configuration, and what it is told at its start."""
        state = self._cluster.state
        disk = state / node.name / "disk"
        golden.clone(self._store, disk / "containerd")
        files = NodeFiles(node, state / node.name / "config", state / "bin", state / "api-ready")
        NodeSetup(
            name=node.name,
            network=str(self._cluster.network_file(node)),
            networks=[str(self._cluster.network_file(other)) for other in NODES],
            state=str(state),
            cgroups=[str(path) for path in cgroups.directories(node.cgroup)],
            hierarchies={each.directory: each.options for each in cgroups.hierarchies()},
            binds={
                str(disk / name): inside
                for name, inside in (
                    ("containerd", "/var/lib/containerd"),
                    ("kubelet", "/var/lib/kubelet"),
                    ("pod-logs", "/var/log/pods"),
                )
            },
            path=f"{state / 'bin'}:{_SYSTEM_PATH}",
            components=files.components(setup, authority),
        ).save(state / node.name / "setup.json")

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        state = self._cluster.state
        while not ready():
            for process in self._started:
                if not processes.alive(process):
                    tail = processes.log_tail(state, process.component)
                    raise ClusterError(f"{process.component} ended while the cluster was starting:\n{tail}")
            if time.monotonic() > deadline:
                logs = sorted(path.stem for path in state.glob("*.log"))
                tails = "\n".join(f"{name}: {processes.log_tail(state, name, 3)}" for name in logs if name != "audit")
                raise ClusterError(f"waited {_START_SECONDS:.0f} s for {what}; last words of each component:\n{tails}")
            time.sleep(_POLL_SECONDS)


def _flags(authority: pki.Authority) -> dict[str, Sequence[str]]:
    kubelet_client = authority.client("kubelet-client", "system:masters")
    return {
        "kube-apiserver": (
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--advertise-address={BRIDGE_ADDRESS}",
            f"--kubelet-certificate-authority={authority.certificate}",
            f"--kubelet-client-certificate={kubelet_client.certificate}",
            f"--kubelet-client-key={kubelet_client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            # Minutes by default: a test of a lost node would take as long.
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
        ),
        "kube-controller-manager": (
            f"--cluster-cidr={POD_CIDRS}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--allocate-node-cidrs=false",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=20s",
        ),
    }


def _ready_nodes(client: Client) -> int:
    answer = client.get("/api/v1/nodes")
    items = answer.body["items"] if answer.code == 200 else []
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for node in items
        for condition in node["status"].get("conditions", ())
    )


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
