"""`python -m tests.cluster emulator|netns up|down|status|kubeconfig`: a cluster for experiments and for tests."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.cluster.emulator import DEFAULT_INSTANCE, Emulator, reap
from tests.cluster.errors import ClusterError
from tests.cluster.netns import network
from tests.cluster.netns.cluster import Netns
from tests.cluster.netns.layout import NODES, Node

_START = time.monotonic()


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if it was done, 1 if it could not be (one line on stderr), 3 if `status` finds it down."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    flavours = parser.add_subparsers(required=True, metavar="FLAVOUR")
    emulator = flavours.add_parser("emulator", help="real control plane, fake nodes (KWOK): no container runs")
    verbs = emulator.add_subparsers(required=True, metavar="VERB")
    _verb(verbs, "up", _up, "start it (building it first if need be); nothing happens if it is up")
    _verb(verbs, "down", _down, "end it and remove all it made")
    _verb(verbs, "status", _status, "which components run; exit code 3 if it is not up")
    _verb(verbs, "kubeconfig", _kubeconfig, "print the path of its kubeconfig")
    _verb(verbs, "reap", _reap, "wait until nobody uses it, then end it (started by test runs)")
    _add_netns(flavours)
    return parser


def _add_netns(flavours: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    netns = flavours.add_parser("netns", help="two real nodes in namespaces of this machine; Linux, root")
    verbs = netns.add_subparsers(required=True, metavar="VERB")
    cluster_verbs = (
        ("up", _netns_up, "start it (building it first if need be); load the images of the code as it is now"),
        ("down", _netns_down, "end it and remove all it made"),
        ("status", _netns_status, "which components run; exit code 3 if it is not up"),
        ("kubeconfig", _netns_kubeconfig, "print the path of its kubeconfig"),
        ("partition", _partition, "cut the nodes off from each other, not from the API server"),
        ("heal", _heal, "undo it"),
    )
    for name, run, about in cluster_verbs:
        verbs.add_parser(name, help=about, description=about).set_defaults(run=run)
    node_verbs: tuple[tuple[str, Callable[[Netns, Node], None], str], ...] = (
        ("node-crash", Netns.crash, "end all that runs on the node at once; its disk stays"),
        ("node-start", Netns.start_node, "start a crashed node again"),
        ("link-down", lambda _, node: network.set_link(node, up=False), "pull the node's cable"),
        ("link-up", lambda _, node: network.set_link(node, up=True), "plug it in again"),
    )
    for name, act, about in node_verbs:
        verb = verbs.add_parser(name, help=about, description=about)
        verb.add_argument("node", choices=[node.name for node in NODES])
        verb.set_defaults(run=_on_node, act=act)


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Callable[..., int], about: str
) -> None:
    verb = verbs.add_parser(name, help=about, description=about)
    verb.add_argument("--name", default=DEFAULT_INSTANCE, help="which emulator, if there are several (%(default)s)")
    verb.set_defaults(run=run)


def _say(line: str) -> None:
    print(f"[{time.monotonic() - _START:6.1f} s] {line}", file=sys.stderr, flush=True)


def _up(options: argparse.Namespace) -> int:
    emulator = Emulator(options.name)
    emulator.up(_say)
    print(f"export KUBECONFIG={emulator.kubeconfig}")
    return 0


def _down(options: argparse.Namespace) -> int:
    Emulator(options.name).down(_say)
    return 0


def _status(options: argparse.Namespace) -> int:
    emulator = Emulator(options.name)
    for component, pid in sorted(emulator.status().items()):
        print(f"{component:24} pid {pid}")
    up = emulator.healthy()
    print(f"emulator {options.name} is {'up at ' + emulator.server() if up else 'down'}")
    return 0 if up else 3


def _kubeconfig(options: argparse.Namespace) -> int:
    emulator = Emulator(options.name)
    emulator.server()
    print(emulator.kubeconfig)
    return 0


def _reap(options: argparse.Namespace) -> int:
    reap(options.name)
    return 0


def _netns_up(_: argparse.Namespace) -> int:
    cluster = Netns.here()
    cluster.up(_say)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _netns_down(_: argparse.Namespace) -> int:
    Netns.here().down(_say)
    return 0


def _netns_status(_: argparse.Namespace) -> int:
    cluster = Netns.here()
    for component, pid in sorted(cluster.status().items()):
        print(f"{component:24} pid {pid}")
    up = cluster.healthy()
    print(f"netns cluster is {'up at ' + cluster.server if up else 'down'}")
    return 0 if up else 3


def _netns_kubeconfig(_: argparse.Namespace) -> int:
    cluster = Netns.here()
    if not cluster.kubeconfig.exists():
        raise ClusterError("the netns cluster is not up")
    print(cluster.kubeconfig)
    return 0


def _partition(_: argparse.Namespace) -> int:
    network.isolate(on=True)
    return 0


def _heal(_: argparse.Namespace) -> int:
    network.isolate(on=False)
    return 0


def _on_node(options: argparse.Namespace) -> int:
    cluster = Netns.here()
    with cluster.locked(_say):
        options.act(cluster, next(node for node in NODES if node.name == options.node))
    return 0


if __name__ == "__main__":
    sys.exit(main())
