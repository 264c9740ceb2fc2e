"""The network between the machine and its nodes: one bridge, a network namespace and a cable (veth pair) per node."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.errors import ClusterError
from tests.cluster.netns.layout import BRIDGE, BRIDGE_ADDRESS, NETWORK, NODES, SERVICE_CIDR, Node

_PREFIX = ipaddress.ip_network(NETWORK)


def create_bridge() -> None:
    """The bridge, where the control plane listens; the machine reaches pods and Services through the nodes."""
    _check_free()
    _ip(f"link add {BRIDGE} type bridge", f"addr add {BRIDGE_ADDRESS}/24 dev {BRIDGE}", f"link set {BRIDGE} up")
    pods = [f"route add {node.pod_cidr} via {node.address} dev {BRIDGE}" for node in NODES]
    _ip(*pods, f"route add {SERVICE_CIDR} via {NODES[0].address} dev {BRIDGE}")


def delete_bridge() -> None:
    """Its routes go with it."""
    if BRIDGE in _links():
        _ip(f"link del {BRIDGE}")


def create_node(node: Node, namespace: Path) -> None:
    """Cable and routes of one node, and its network namespace, which the file `namespace` stands for."""
    namespace.touch()
    _run(["unshare", f"--net={namespace}", "true"])
    _ip(
        f"link add {node.link} type veth peer name eth0 netns {namespace}",
        f"link set {node.link} master {BRIDGE} up",
    )
    others = [f"route add {other.pod_cidr} via {other.address}" for other in NODES if other != node]
    _ip(
        "link set lo up",
        f"addr add {node.address}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {BRIDGE_ADDRESS}",
        *others,
        namespace=namespace,
    )


def delete_node(node: Node, namespace: Path) -> None:
    """The namespace ends with the last process in it."""
    if node.link in _links():
        _ip(f"link del {node.link}")
    if namespace.exists():
        if namespace.stat().st_dev != namespace.parent.stat().st_dev:  # it is mounted there
            _run(["umount", str(namespace)])
        namespace.unlink()


def set_link(node: Node, *, up: bool) -> None:
    """Plugs the node's cable in or pulls it. Raises ClusterError if there is no such node."""
    _ip(f"link set {node.link} {'up' if up else 'down'}")


def isolate(*, on: bool) -> None:
    """Cuts the nodes off from each other, but not from the control plane: isolated ports of a bridge."""
    for node in NODES:
        _run(["bridge", "link", "set", "dev", node.link, "isolated", "on" if on else "off"])


def _check_free() -> None:
    """Raises ClusterError if somebody else uses our range of addresses."""
    for route in _ip_json("route", "show", "table", "all"):
        destination = route.get("dst", "default")
        if destination == "default" or ":" in destination:
            continue
        if ipaddress.ip_network(destination, strict=False).overlaps(_PREFIX) and route.get("dev") != BRIDGE:
            raise ClusterError(
                f"the route {destination} dev {route.get('dev')} is within {NETWORK}, which the test cluster needs; "
                "remove it first"
            )


def _links() -> set[str]:
    return {link["ifname"] for link in _ip_json("link", "show")}


def _ip_json(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_run(["ip", "-json", *arguments]) or "[]")
    return found


def _ip(*lines: str, namespace: Path | None = None) -> None:
    """Runs commands of ip(8), one a line, in one process."""
    within = [] if namespace is None else ["nsenter", f"--net={namespace}"]
    _run([*within, "ip", "-batch", "-"], "\n".join(lines) + "\n")


def _run(command: Sequence[str], text: str | None = None) -> str:
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        what = " ".join(command) if text is None else f"{' '.join(command)} ({'; '.join(text.splitlines())})"
        raise ClusterError(f"`{what}` failed: {result.stderr.strip()}")
    return result.stdout
