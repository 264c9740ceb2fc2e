"""The operator's command line. Every flag can also be given by an environment variable; the flag wins."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from disttrain import names
from disttrain.controller import version
from disttrain.controller.connection import Access, find_access
from disttrain.controller.logs import LogFormat
from disttrain.core.model import Settings

SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE: Final = "disttrain-system"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Options:
    """How the operator was started."""

    access: Access
    namespaces: tuple[str, ...]
    """Which to serve; empty: all."""
    settings: Settings
    concurrency: int
    api_qps: float
    api_burst: int
    listen_address: str | None
    """None: every interface, IPv4 and IPv6."""
    health_port: int
    metrics_port: int
    log_level: str
    log_format: LogFormat
    reporter: str


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """Read flags and environment. Exits with 2 and usage on a bad flag, as argparse does."""
    given = _parser(environment).parse_args(arguments)
    return Options(
        access=find_access(given.kubeconfig, given.context, in_cluster=given.in_cluster, environment=environment),
        namespaces=_unique(given.namespace or [_names(environment.get("DISTTRAIN_NAMESPACES", ""))]),
        settings=Settings(
            trainer_image=given.trainer_image,
            agent_image=given.agent_image,
            operator_namespace=given.operator_namespace or _own_namespace(),
            cluster_domain=given.cluster_domain,
        ),
        concurrency=given.concurrency,
        api_qps=given.api_qps,
        api_burst=given.api_burst,
        listen_address=given.listen_address or None,
        health_port=given.health_port,
        metrics_port=given.metrics_port,
        log_level=given.log_level,
        log_format=cast("LogFormat", given.log_format),
        reporter=environment.get("POD_NAME") or socket.gethostname(),
    )


class _Flags:
    """Adds flags whose default is an environment variable: `--health-port` and DISTTRAIN_HEALTH_PORT."""

    def __init__(self, parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
        self._parser = parser
        self._environment = environment

    def add(self, flag: str, default: str | None, help_text: str, **options: Any) -> None:
        variable = "DISTTRAIN_" + flag.strip("-").replace("-", "_").upper()
        shown = f"; default {default}" if default else ""
        self._parser.add_argument(
            flag, default=self._environment.get(variable, default), help=f"{help_text} [{variable}{shown}]", **options
        )

    def switch(self, flag: str, help_text: str) -> None:
        variable = "DISTTRAIN_" + flag.strip("-").replace("-", "_").upper()
        on = self._environment.get(variable, "").lower() in _TRUE
        self._parser.add_argument(flag, action="store_true", default=on, help=f"{help_text} [{variable}]")


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="disttrain-operator", description="Makes every DistTrainJob of a cluster train.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"disttrain-operator {version.VERSION}")
    flags = _Flags(parser, environment)
    flags.add("--kubeconfig", None, "kubeconfig file; KUBECONFIG and ~/.kube/config also count", metavar="FILE")
    flags.add("--context", None, "context of the kubeconfig; default: its current one", metavar="NAME")
    flags.switch("--in-cluster", "use the pod's service account, whatever else is there")
    parser.add_argument(
        "--namespace",
        "--namespaces",
        action="append",
        type=_names,
        metavar="NAME[,NAME]",
        help="namespaces to serve, comma-separated or repeated; default: all [DISTTRAIN_NAMESPACES]",
    )
    flags.add("--trainer-image", names.TRAINER_IMAGE, "image of trainer containers that name none")
    flags.add("--agent-image", names.AGENT_IMAGE, "image from which the agent is taken")
    flags.add("--operator-namespace", None, "where the operator runs; default: its pod's namespace")
    flags.add("--cluster-domain", "cluster.local", "the cluster's DNS domain")
    flags.add("--concurrency", "32", "jobs worked on at once", type=_positive)
    flags.add("--api-qps", "500", "requests a second to the API server, in the long run", type=_positive)
    flags.add("--api-burst", "1000", "requests at once beyond that", type=_positive)
    flags.add("--listen-address", None, "address of the two ports below; default: all")
    flags.add("--health-port", "8080", "port of /healthz and /readyz; 0: any free one", type=_port)
    flags.add("--metrics-port", "8081", "port of /metrics; 0: any free one", type=_port)
    flags.add("--log-level", "info", "least severity that is logged", choices=("debug", "info", "warning", "error"))
    flags.add("--log-format", "json", "how logs are written", choices=("json", "text"))
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _unique(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError(f"must be between 0 and 65535, not {value}")
    return value


def _own_namespace() -> str:
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:  # not in a pod
        return DEFAULT_NAMESPACE
