"""Names and addresses of the netns cluster. It exists once on a machine: network devices and cgroups are named here.

Every address is of 198.19.0.0/16, set aside for tests between devices (RFC 2544), so no real network is shadowed.
"""

from __future__ import annotations

from dataclasses import dataclass

NETWORK = "198.19.0.0/16"
SERVICE_CIDR = "198.19.128.0/20"
DNS_ADDRESS = "198.19.128.10"
BRIDGE = "disttrain0"
BRIDGE_ADDRESS = "198.19.255.1"
API_PORT = 6443
POD_CIDRS = "198.19.0.0/17"


@dataclass(frozen=True)
class Node:
    """A node: its address on the bridge and the range its pods have theirs from."""

    name: str
    address: str
    pod_cidr: str

    @property
    def link(self) -> str:
        """The machine's end of the node's cable; at most 15 characters (IFNAMSIZ)."""
        return f"dt-{self.name}"

    @property
    def cgroup(self) -> str:
        return f"disttrain-{self.name}"


NODES = (Node("node-1", "198.19.255.11", "198.19.1.0/24"), Node("node-2", "198.19.255.12", "198.19.2.0/24"))
