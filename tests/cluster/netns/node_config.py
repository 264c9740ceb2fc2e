"""The configuration of what runs on a node: containerd, its network plugins, kubelet, kube-proxy, policy engine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import pki
from tests.cluster.components import Setup
from tests.cluster.images.names import PAUSE
from tests.cluster.netns.layout import DNS_ADDRESS, POD_CIDRS, Node
from tests.cluster.netns.node import Component

CNI_PLUGINS = Path("/usr/lib/cni")  # of the Debian package containernetworking-plugins
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_CNI_CONFIG = "/etc/cni/net.d"


@dataclass(frozen=True)
class NodeFiles:
    """Where a node's files are: configuration in `directory`, programs by name in `programs`."""

    node: Node
    directory: Path
    programs: Path
    api_ready: Path

    def components(self, setup: Setup, authority: pki.Authority) -> list[Component]:
        """Writes every configuration file and returns what is to run, in order."""
        self.directory.mkdir(parents=True)
        kubelet_user = pki.certificate_user(authority.client(f"system:node:{self.node.name}", "system:nodes"))
        proxy_user = pki.certificate_user(authority.client("system:kube-proxy"))
        policy_user = pki.certificate_user(authority.client("network-policies"))
        kubeconfigs = {
            name: self._write(f"{name}.kubeconfig", pki.kubeconfig(setup.server, authority.certificate, user))
            for name, user in (("kubelet", kubelet_user), ("proxy", proxy_user), ("netpol", policy_user))
        }
        serving = authority.server(self.node.name, self.node.address)
        containerd = self._write("containerd.toml", _containerd(str(self.directory / "cni")))
        self._write("cni/10-bridge.conflist", json.dumps(_cni(self.node)))
        resolv_conf = self._write("resolv.conf", f"nameserver {DNS_ADDRESS}\n")
        kubelet = self._write("kubelet.json", json.dumps(_kubelet(setup.authority, serving, resolv_conf), indent=1))
        proxy = self._write("proxy.json", json.dumps(_proxy(self.node, kubeconfigs["proxy"]), indent=1))
        ready = str(self.api_ready)
        return [
            Component("containerd", [self._program("containerd"), "--config", containerd]),
            Component(
                "kubelet",
                [
                    self._program("kubelet"),
                    f"--config={kubelet}",
                    f"--kubeconfig={kubeconfigs['kubelet']}",
                    f"--hostname-override={self.node.name}",
                    f"--node-ip={self.node.address}",
                    f"--node-labels=topology.kubernetes.io/zone={self.node.name}",
                    "--v=2",
                ],
                after=[CONTAINERD_SOCKET, ready],
            ),
            Component("kube-proxy", [self._program("kube-proxy"), f"--config={proxy}"], after=[ready]),
            Component(
                "netpol",
                [self._program("netpol"), f"--kubeconfig={kubeconfigs['netpol']}", f"--node={self.node.name}"],
                after=[ready],
            ),
        ]

    def _program(self, name: str) -> str:
        return str(self.programs / name)

    def _write(self, name: str, text: str) -> str:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text)
        return str(path)


def _containerd(cni_config: str) -> str:
    """TOML. Lowering oom_score_adj needs CAP_SYS_RESOURCE, which a container or a small machine may not have."""
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{CNI_PLUGINS}"]
  conf_dir = "{cni_config}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def _cni(node: Node) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": node.pod_cidr}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet(authority: Path, serving: pki.Identity, resolv_conf: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": resolv_conf,
        "failSwapOn": False,
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "imageGCHighThresholdPercent": 100,  # off: the images cannot be pulled again
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        "oomScoreAdj": 0,
    }


def _proxy(node: Node, kubeconfig: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clusterCIDR": POD_CIDRS,
        "clientConnection": {"kubeconfig": kubeconfig},
        # 0: leave the limits of the kernel's connection table, which are the machine's, alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "metricsBindAddress": "127.0.0.1:10249",
    }
