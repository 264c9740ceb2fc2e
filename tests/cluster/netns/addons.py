"""What every cluster has besides its control plane: DNS, rights of the policy engine, a StorageClass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cluster.errors import ClusterError
from tests.cluster.rest import Client

_DIRECTORY = Path(__file__).parent / "addons"
_COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}


def documents() -> list[dict[str, Any]]:
    """Every object of every file, those of one file in its order."""
    return [document for file in sorted(_DIRECTORY.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text())]


def collection(document: dict[str, Any]) -> str:
    """The path to which an object of its kind is posted."""
    return _COLLECTIONS[document["kind"]].format(namespace=document["metadata"].get("namespace"))


def create(client: Client) -> None:
    """Creates them in a new cluster. Raises ClusterError with the API server's words."""
    for document in documents():
        answer = client.post(collection(document), document)
        if answer.code != 201:
            what = f"{document['kind']} {document['metadata']['name']}"
            raise ClusterError(f"the API server refused {what}: {answer.body}")


def dns_ready(client: Client) -> bool:
    """Whether names are resolved."""
    answer = client.get("/apis/apps/v1/namespaces/kube-system/deployments/coredns")
    return answer.code == 200 and answer.body["status"].get("readyReplicas", 0) >= 1
