"""The objects a job is made of, as files: one job a strategy, and each thing that changes a pod."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from disttrain import names
from disttrain.api.parse import parse_job
from disttrain.core import desired
from disttrain.core.model import Manifest, Settings
from disttrain_agent import contract

SETTINGS = Settings(trainer_image="registry.test/disttrain-trainer:1", agent_image="registry.test/disttrain-agent:1")
UID = "1a2b3c4d-0000-4000-8000-000000000001"
PLAIN = "{containers: [{name: trainer, image: 'registry.test/recsys:7', args: [train.py, --epochs=3]}]}"

JOBS = {
    "mirrored": f"""
        strategy: Mirrored
        template: {{spec: {PLAIN}}}
    """,
    "multi-worker-mirrored": f"""
        strategy: MultiWorkerMirrored
        template: {{spec: {PLAIN}}}
        roles: {{chief: {{}}, worker: {{replicas: 2}}}}
    """,
    "parameter-server": f"""
        strategy: ParameterServer
        template: {{spec: {PLAIN}}}
        roles:
          worker: {{replicas: 2}}
          ps:
            resources: {{requests: {{cpu: '8', memory: 64Gi}}}}
            nodeSelector: {{pool: cpu}}
            tolerations: [{{key: cpu, operator: Exists}}]
          evaluator: {{template: {{spec: {{containers: [{{name: trainer, args: [eval.py]}}]}}}}}}
    """,
    "storage": """
        strategy: Mirrored
        template: {spec: {containers: [{name: main, args: [train.py]}]}}
        storage: {claimName: models, mountPath: /data, subPath: runs}
        checkpoint: {everySteps: 1000, everySeconds: 600, keep: 5, restoreFrom: /data/runs/old}
    """,
    "command": """
        strategy: MultiWorkerMirrored
        template:
          spec:
            securityContext: {runAsUser: 0}
            initContainers: [{name: fetch, image: 'registry.test/fetch:1'}]
            containers:
            - {name: trainer, image: 'registry.test/tf:2.21', command: [python, train.py], args: [--epochs=3]}
        roles: {worker: {replicas: 1}}
    """,
    "users-own": """
        strategy: Mirrored
        template:
          metadata: {labels: {team: a}, annotations: {example.com/note: kept}}
          spec:
            terminationGracePeriodSeconds: 30
            automountServiceAccountToken: true
            enableServiceLinks: true
            priorityClassName: prod
            containers:
            - name: logger
              image: registry.test/logger:1
            - name: trainer
              image: registry.test/recsys:7
              terminationMessagePolicy: File
              env: [{name: LOGS, value: $(DISTTRAIN_JOB)/logs}]
              ports: [{name: status, containerPort: 2223}, {name: http, containerPort: 8080}]
        network: {policy: None}
    """,
}


def rendered(spec: str) -> list[Manifest]:
    """Everything made for a job, in the order in which it is made."""
    job = parse_job(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": "recsys", "namespace": "team-a", "uid": UID},
            "spec": yaml.safe_load(spec),
        }
    )
    assert not job.errors, job.errors
    assert job.spec is not None
    slots = [(role, index) for role in job.spec.roles_in_use() for index in range(job.spec.replicas(role))]
    children: list[Manifest] = [desired.service(job)]
    if job.spec.network.policy == "Isolated":
        children.append(desired.network_policy(job, SETTINGS))
    return [*children, *(desired.pod(job, role, index, 1, SETTINGS) for role, index in slots)]


@pytest.mark.parametrize("name", JOBS)
def test_objects(name, golden):
    golden.matches_yaml(f"objects/{name}.yaml", rendered(JOBS[name]))


def workers(count: int) -> list[Manifest]:
    spec = f"{{strategy: MultiWorkerMirrored, template: {{spec: {PLAIN}}}, roles: {{worker: {{replicas: {count}}}}}}}"
    return [item for item in rendered(spec) if item["kind"] == "Pod"]


def variables(pod: Manifest) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}


def test_128_pods_are_the_most_that_hold_the_literal_tf_config(golden):
    pods = workers(contract.MAX_PODS_WITH_LITERAL_TF_CONFIG)
    golden.matches("tf-config/worker-127-of-128.json", variables(pods[127])[contract.ENV_TF_CONFIG] + "\n")


def test_from_129_pods_on_only_the_agent_composes_it(golden):
    pods = workers(contract.MAX_PODS_WITH_LITERAL_TF_CONFIG + 1)
    golden.matches_yaml("objects/worker-128-of-129.yaml", [pods[128]])
    assert all(contract.ENV_TF_CONFIG not in variables(pod) for pod in pods)
