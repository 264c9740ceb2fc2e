"""Apply a job: exactly the objects of the design, each with what TensorFlow needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from disttrain_agent.cluster import Cluster, tf_config
from tests.emulator.audit import AuditLog
from tests.emulator.jobs import environment, job, mirrored, parameter_server, template
from tests.emulator.kube import Manifest
from tests.emulator.space import OURS, Space


@dataclass(frozen=True)
class Case:
    """A strategy's job and the pods that it must become."""

    manifest: Manifest
    replicas: dict[str, int]
    cluster_replicas: dict[str, int] = field(default_factory=dict)
    """Without the evaluator, which is in nobody's cluster map."""


CASES = {
    "MultiWorkerMirrored": Case(job("digits"), {"worker": 2}, {"worker": 2}),
    "MultiWorkerMirrored-chief": Case(
        job("digits", roles={"chief": {}, "worker": {"replicas": 2}, "evaluator": {}}),
        {"chief": 1, "worker": 2, "evaluator": 1},
        {"chief": 1, "worker": 2},
    ),
    "ParameterServer": Case(
        job("digits", "ParameterServer", {"worker": {"replicas": 2}, "ps": {"replicas": 2}, "evaluator": {}}),
        {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1},
        {"chief": 1, "worker": 2, "ps": 2},
    ),
    "Mirrored": Case(mirrored("digits"), {"worker": 1}),
}


def tasks(case: Case) -> dict[str, tuple[str, int]]:
    return {f"digits-{role}-{index}": (role, index) for role, n in case.replicas.items() for index in range(n)}


@pytest.mark.parametrize("name", CASES)
async def test_every_task_gets_one_pod_and_the_job_runs(space: Space, name: str) -> None:
    await space.submit(CASES[name].manifest)
    await space.running_pods(*tasks(CASES[name]))
    await space.phase("digits", "Running")


@pytest.mark.parametrize("name", CASES)
async def test_tf_config_is_what_tensorflow_needs(space: Space, name: str) -> None:
    case = CASES[name]
    await space.submit(case.manifest)
    pods = await space.running_pods(*tasks(case))
    strategy = case.manifest["spec"]["strategy"]
    cluster = Cluster("digits", space.name, "cluster.local", strategy, case.cluster_replicas)
    expected = {pod: tf_config(cluster, role, index) for pod, (role, index) in tasks(case).items()}
    assert {pod: environment(body).get("TF_CONFIG") for pod, body in pods.items()} == expected


@pytest.mark.parametrize("name", CASES)
async def test_nothing_is_made_but_pods_a_service_a_network_policy_and_events(
    space: Space, audit: AuditLog, name: str
) -> None:
    await space.submit(CASES[name].manifest)
    await space.phase("digits", "Running")
    created = [request for request in audit.requests(namespace=space.name) if request.verb == "create"]
    made = sorted(request.resource for request in created if request.resource != "events")
    assert made == ["networkpolicies", *["pods"] * len(tasks(CASES[name])), "services"]


async def test_everything_belongs_to_the_job(space: Space) -> None:
    stored = await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    owner = {
        "apiVersion": "disttrain.dev/v1alpha1",
        "kind": "DistTrainJob",
        "name": "digits",
        "uid": stored["metadata"]["uid"],
        "controller": True,
    }
    owners = [body["metadata"]["ownerReferences"] for kind in OURS for body in space.watch(kind).objects.values()]
    assert owners == [[owner]] * 6


async def test_the_job_itself_carries_no_finalizer_and_no_annotation_of_ours(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    metadata = [version["metadata"] for version in space.watch("DistTrainJob").versions("digits")]
    assert [each for each in metadata if "finalizers" in each or "annotations" in each] == []


async def test_the_spec_is_left_as_the_user_wrote_it(space: Space) -> None:
    stored = await space.submit(job("digits"))
    running = await space.phase("digits", "Running")
    assert running["spec"] == stored["spec"]


async def test_one_headless_service_names_the_pods_before_they_are_ready(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    (service,) = space.watch("Service").objects.values()
    pod = space.pods()["digits-worker-1"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("digits-worker-1", service["metadata"]["name"])
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


async def test_the_network_policy_selects_the_jobs_pods(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    (policy,) = space.watch("NetworkPolicy").objects.values()
    selected = policy["spec"]["podSelector"]["matchLabels"].items()
    assert all(selected <= pod["metadata"]["labels"].items() for pod in space.pods().values())


async def test_network_policy_none_makes_none(space: Space) -> None:
    await space.submit(job("digits", network={"policy": "None"}))
    await space.phase("digits", "Running")
    assert space.watch("NetworkPolicy").objects == {}


async def test_a_role_with_a_template_of_its_own_takes_it_whole(space: Space) -> None:
    evaluator = template()
    evaluator["spec"]["containers"][0]["args"] = ["eval.py"]
    await space.submit(job("digits", roles={"worker": {"replicas": 1}, "evaluator": {"template": evaluator}}))
    pods = await space.running_pods("digits-worker-0", "digits-evaluator-0")
    arguments = {name: pod["spec"]["containers"][0]["args"] for name, pod in pods.items()}
    assert arguments == {"digits-worker-0": ["train.py"], "digits-evaluator-0": ["eval.py"]}


async def test_a_role_changes_resources_and_keeps_the_rest(space: Space) -> None:
    small: dict[str, Any] = {"requests": {"cpu": "1"}}
    roles = {"worker": {"replicas": 1}, "ps": {"resources": small}, "chief": {}}
    shared = template()
    shared["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    await space.submit(job("digits", "ParameterServer", roles, template=shared))
    pods = await space.running_pods("digits-worker-0", "digits-ps-0", "digits-chief-0")
    cpu = {name: pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for name, pod in pods.items()}
    assert cpu == {"digits-worker-0": "2", "digits-chief-0": "2", "digits-ps-0": "1"}


async def test_a_pod_that_cannot_be_scheduled_is_named_with_the_schedulers_words(space: Space) -> None:
    shared = template()
    shared["spec"]["nodeSelector"] = {"pool": "of-no-node"}
    await space.submit(job("digits", template=shared))
    await space.until(
        lambda: (
            "Unschedulable" in str(space.status("digits").get("conditions"))
            and "worker-0" in str(space.status("digits").get("conditions"))
        ),
        "the job says that worker-0 is Unschedulable",
    )


async def test_an_image_that_cannot_be_pulled_is_named(space: Space) -> None:
    roles = {"worker": {"replicas": 1}, "chief": {"template": template(waiting="ImagePullBackOff")}}
    await space.submit(job("digits", roles=roles))
    await space.until(
        lambda: "chief-0 ImagePullBackOff" in str(space.status("digits").get("conditions")),
        "the job says that the chief's image cannot be pulled",
    )
