"""What a job's pods are told of the cluster they form. The definition is the agent's: `disttrain_agent.cluster`."""

from __future__ import annotations

from disttrain import names
from disttrain.api.spec import JobSpec
from disttrain.core.model import Job, Settings
from disttrain_agent import cluster as agent_cluster
from disttrain_agent import contract
from disttrain_agent.cluster import Cluster


def describe(job: Job, spec: JobSpec, settings: Settings) -> Cluster:
    """The job's cluster: roles that are in use with their replicas, in the order of `names.ROLES`."""
    return Cluster(
        job=job.name,
        namespace=job.namespace,
        domain=settings.cluster_domain,
        strategy=spec.strategy,
        replicas={role: spec.replicas(role) for role in spec.roles_in_use()},
    )


def literal(cluster: Cluster, role: names.Role, index: int) -> str | None:
    """The TF_CONFIG that goes into a pod's environment, so that an image without the agent works too.

    None under Mirrored, which must not get one, and past MAX_PODS_WITH_LITERAL_TF_CONFIG pods: n addresses in n pods
    are O(n²) in etcd, and from about 3,000 workers on no exec takes a string that long. There the agent composes it.
    """
    if sum(cluster.replicas.values()) > contract.MAX_PODS_WITH_LITERAL_TF_CONFIG:
        return None
    return agent_cluster.tf_config(cluster, role, index)
