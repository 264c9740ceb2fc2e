"""Volumes for claims of the class `shared`: directories of the machine, which pods on both nodes see.

Run as `python -m tests.cluster.netns.volumes STATE`: what a storage driver's provisioner does, by asking every half
second. Directories are open to all users, since the kubelet does not set the owner of such volumes.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster import pki
from tests.cluster.rest import Client

CLASS = "shared"
_POLL_SECONDS = 0.5
_CLAIMS = "/api/v1/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


def run(server: str, keys: Path, directory: Path) -> None:
    """Never returns: it ends with the cluster."""
    client = Client(server, keys / "ca.crt", pki.Identity(keys / "admin.crt", keys / "admin.key"))
    while True:
        claims, volumes = client.get(_CLAIMS), client.get(_VOLUMES)
        if claims.code == volumes.code == 200:
            _provision(client, claims.body["items"], directory)
            _remove(client, volumes.body["items"], directory)
        time.sleep(_POLL_SECONDS)


def _provision(client: Client, claims: list[dict[str, Any]], directory: Path) -> None:
    for claim in claims:
        spec = claim["spec"]
        if spec.get("storageClassName") != CLASS or spec.get("volumeName") is not None:
            continue
        volume = volume_for(claim, directory)
        path = Path(volume["spec"]["hostPath"]["path"])
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        answer = client.post(_VOLUMES, volume)
        if answer.code not in (201, 409):  # 409: made before, and not bound yet
            print(f"volume for {claim['metadata']['name']}: {answer.body}", flush=True)


def volume_for(claim: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The volume, bound to the claim from the start."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"shared-{metadata['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",  # we reclaim it: the controller manager cannot
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": str(directory / name), "type": "Directory"},
        },
    }


def _remove(client: Client, volumes: list[dict[str, Any]], directory: Path) -> None:
    for volume in volumes:
        name = volume["metadata"]["name"]
        if volume["spec"].get("storageClassName") == CLASS and volume["status"].get("phase") == "Released":
            client.delete(f"{_VOLUMES}/{name}")
            shutil.rmtree(directory / name, ignore_errors=True)


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
