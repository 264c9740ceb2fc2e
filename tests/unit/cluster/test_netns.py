"""The netns cluster's parts that need neither root nor a cluster."""

from __future__ import annotations

import ipaddress
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.images.names import COREDNS
from tests.cluster.netns import addons, layout, volumes
from tests.cluster.netns.node import Component, NodeSetup

CLAIM: dict[str, Any] = {
    "metadata": {"name": "data", "namespace": "team", "uid": "1234"},
    "spec": {
        "storageClassName": "shared",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def networks() -> dict[str, ipaddress.IPv4Network]:
    return {
        **{node.name: ipaddress.IPv4Network(node.pod_cidr) for node in layout.NODES},
        "services": ipaddress.IPv4Network(layout.SERVICE_CIDR),
        "bridge": ipaddress.IPv4Network(f"{layout.BRIDGE_ADDRESS}/24", strict=False),
    }


def test_every_address_is_in_the_range_set_aside_for_tests() -> None:
    whole = ipaddress.IPv4Network(layout.NETWORK)
    assert [name for name, network in networks().items() if not network.subnet_of(whole)] == []


def test_no_two_ranges_overlap() -> None:
    pairs = itertools.combinations(networks().items(), 2)
    assert [(a, b) for (a, one), (b, two) in pairs if one.overlaps(two)] == []


def test_every_node_is_on_the_bridge() -> None:
    assert all(ipaddress.ip_address(node.address) in networks()["bridge"] for node in layout.NODES)


def test_the_pods_of_every_node_count_as_pods_for_the_proxy() -> None:
    pods = ipaddress.IPv4Network(layout.POD_CIDRS)
    assert all(networks()[node.name].subnet_of(pods) for node in layout.NODES)


def test_device_names_fit_the_kernel() -> None:
    assert all(len(name) < 16 for name in (layout.BRIDGE, *(node.link for node in layout.NODES)))


def test_every_addon_has_a_place_to_be_posted_to() -> None:
    assert all(addons.collection(document).startswith("/api") for document in addons.documents())


def test_dns_is_where_the_pods_look_for_it() -> None:
    services = [each for each in addons.documents() if each["kind"] == "Service"]
    assert [each["spec"]["clusterIP"] for each in services] == [layout.DNS_ADDRESS]


def test_dns_runs_the_image_that_is_built() -> None:
    deployments = [each for each in addons.documents() if each["kind"] == "Deployment"]
    containers = [container for each in deployments for container in each["spec"]["template"]["spec"]["containers"]]
    assert [container["image"] for container in containers] == [COREDNS]


def test_the_storage_class_is_the_one_that_volumes_are_made_for() -> None:
    classes = [each["metadata"]["name"] for each in addons.documents() if each["kind"] == "StorageClass"]
    assert classes == [volumes.CLASS]


def test_a_volume_is_bound_to_its_claim_from_the_start() -> None:
    spec = volumes.volume_for(CLAIM, Path("/volumes"))["spec"]
    assert spec["claimRef"] == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "team",
        "name": "data",
        "uid": "1234",
    }


def test_a_volume_gives_what_the_claim_asks_for() -> None:
    spec = volumes.volume_for(CLAIM, Path("/volumes"))["spec"]
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "1Gi"}, ["ReadWriteMany"])


def test_two_claims_of_one_name_get_different_directories() -> None:
    later = {**CLAIM, "metadata": {**CLAIM["metadata"], "uid": "5678"}}
    paths = {volumes.volume_for(claim, Path("/volumes"))["spec"]["hostPath"]["path"] for claim in (CLAIM, later)}
    assert len(paths) == 2


@pytest.fixture
def setup() -> NodeSetup:
    return NodeSetup(
        name="node-1",
        network="/state/node-1.network",
        networks=["/state/node-1.network"],
        state="/state",
        cgroups=["/sys/fs/cgroup/cpu/disttrain-node-1"],
        hierarchies={"cpu": "cpu"},
        binds={"/state/node-1/disk/kubelet": "/var/lib/kubelet"},
        path="/usr/bin",
        components=[Component("kubelet", ["kubelet", "--v=2"], after=["/run/containerd/containerd.sock"])],
    )


def test_a_node_reads_what_was_written_for_it(tmp_path: Path, setup: NodeSetup) -> None:
    setup.save(tmp_path / "setup.json")
    assert NodeSetup.load(tmp_path / "setup.json") == setup


def test_what_is_written_for_a_node_is_json_that_a_person_can_read(tmp_path: Path, setup: NodeSetup) -> None:
    setup.save(tmp_path / "setup.json")
    assert json.loads((tmp_path / "setup.json").read_text())["components"][0]["name"] == "kubelet"
