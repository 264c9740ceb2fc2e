"""Loopback ports for a job's processes: two for every (role, index), fixed and reserved for the job's whole life."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from disttrain.local.errors import LocalError, reason
from disttrain_agent.cluster import Cluster

LOOPBACK: Final = "127.0.0.1"


class Ports:
    """Reserves ports on 127.0.0.1 until `close`.

    A port that is only remembered can be taken by another program while its process restarts. So every port stays
    bound, never listening, with SO_REUSEADDR and SO_REUSEPORT: Linux then lets gRPC (SO_REUSEPORT) and the agent
    (SO_REUSEADDR) of the same user listen on it and refuses everybody else (socket(7)). Other systems have other
    rules; there the port is released at once.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give all ports back."""
        for held in self._held:
            held.close()
        self._held.clear()

    def reserve(self, count: int) -> list[int]:
        """`count` distinct free ports. Raises LocalError when the system has none left."""
        reserved: list[socket.socket] = []
        try:
            reserved.extend(_bind() for _ in range(count))
        except OSError as error:
            for one in reserved:
                one.close()
            raise LocalError(f"cannot reserve {count} ports on {LOOPBACK}: {reason(error)}") from error
        ports = [one.getsockname()[1] for one in reserved]
        for one in reserved:
            if sys.platform == "linux":
                # Only now: set before bind(), Linux could hand out a port that another run holds the same way.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                self._held.append(one)
            else:
                one.close()
        return ports

    def place(self, cluster: Cluster) -> Cluster:
        """The cluster with addresses on this machine: TensorFlow's for its members, an agent's for every replica."""
        members: dict[str, int] = {}
        for role, _ in cluster.members():
            members[role] = members.get(role, 0) + 1
        ports = iter(self.reserve(sum(members.values()) + sum(cluster.replicas.values())))
        return replace(
            cluster,
            addresses={role: [f"{LOOPBACK}:{next(ports)}" for _ in range(count)] for role, count in members.items()},
            agents={
                role: [f"{LOOPBACK}:{next(ports)}" for _ in range(count)] for role, count in cluster.replicas.items()
            },
        )


def _bind() -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        one.bind((LOOPBACK, 0))
    except OSError:
        one.close()
        raise
    return one
