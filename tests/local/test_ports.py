"""Ports stay a job's own while its processes come and go."""

from __future__ import annotations

import socket
import sys

import pytest

from disttrain.local.ports import LOOPBACK, Ports
from disttrain_agent.cluster import Cluster

holds = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a bound port be listened on by its owner")


def listen(port: int, *options: int) -> None:
    with socket.socket() as one:
        for option in options:
            one.setsockopt(socket.SOL_SOCKET, option, 1)
        one.bind((LOOPBACK, port))
        one.listen()


def test_ports_are_distinct() -> None:
    with Ports() as ports:
        assert len(set(ports.reserve(50))) == 50


@holds
def test_nobody_else_gets_a_reserved_port() -> None:
    with Ports() as ports, pytest.raises(OSError, match="in use"):
        listen(*ports.reserve(1))


@holds
@pytest.mark.parametrize("option", [socket.SO_REUSEADDR, socket.SO_REUSEPORT], ids=["agent", "gRPC"])
def test_the_jobs_own_servers_can_listen_on_it_again_and_again(option: int) -> None:
    with Ports() as ports:
        [port] = ports.reserve(1)
        listen(port, option)
        listen(port, option)


@holds
def test_nothing_answers_on_a_port_that_is_only_reserved() -> None:
    with Ports() as ports, pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, *ports.reserve(1)))


def test_after_the_job_the_ports_are_free() -> None:
    with Ports() as ports:
        [port] = ports.reserve(1)
    listen(port)


def test_every_replica_gets_an_agent_and_every_member_a_tensorflow_address() -> None:
    replicas = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
    cluster = Cluster(job="a", namespace="n", domain="d", strategy="ParameterServer", replicas=replicas)
    with Ports() as ports:
        placed = ports.place(cluster)
    assert {role: len(several) for role, several in placed.agents.items()} == replicas
    assert {role: len(several) for role, several in placed.addresses.items()} == {"chief": 1, "worker": 2, "ps": 1}
    everywhere = [one for group in (*placed.agents.values(), *placed.addresses.values()) for one in group]
    assert len(set(everywhere)) == 9
    assert all(one.startswith(f"{LOOPBACK}:") for one in everywhere)
