"""Objects become jobs, whatever they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from disttrain.api.defaults import with_defaults
from disttrain.api.parse import parse_job
from disttrain.api.spec import JobSpec
from tests.unit.api import cases

WHOLE = """
apiVersion: disttrain.dev/v1alpha1
kind: DistTrainJob
metadata:
  name: recsys
  labels: {kueue.x-k8s.io/queue-name: team-a, kueue.x-k8s.io/priority-class: prod}
  annotations: {scheduling.volcano.sh/queue-name: q1}
spec:
  strategy: ParameterServer
  suspend: false
  managedBy: disttrain.dev/operator
  backoffLimit: 6
  cleanPodPolicy: Running
  successPolicy: {type: Chief, evaluatorGracePeriodSeconds: 300}
  template:
    metadata: {labels: {team: a}}
    spec:
      priorityClassName: prod
      containers:
      - name: trainer
        image: r/recsys:7
        args: [train.py]
        resources: {requests: {cpu: "4", memory: 16Gi}, limits: {nvidia.com/gpu: "1"}}
  roles:
    chief: {}
    worker: {replicas: 4}
    ps:
      replicas: 2
      resources: {requests: {cpu: "8", memory: 64Gi}}
      nodeSelector: {pool: cpu}
      tolerations: [{key: cpu, operator: Exists}]
    evaluator: {template: {spec: {containers: [{name: trainer, image: r/recsys:7, args: [eval.py]}]}}}
  recovery: {mode: Recreate}
  storage: {claimName: runs, mountPath: /disttrain, subPath: runs}
  checkpoint: {everySteps: 1000, everySeconds: 600, keep: 3, restoreFrom: /disttrain/runs/old}
  network: {policy: Isolated}
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
PATHS = (
    "spec",
    "metadata",
    "metadata.name",
    "metadata.labels",
    "metadata.creationTimestamp",
    "status",
    "spec.strategy",
    "spec.roles",
    "spec.roles.worker",
    "spec.roles.worker.replicas",
    "spec.roles.worker.template",
    "spec.roles.worker.resources",
    "spec.roles.worker.tolerations",
    "spec.template",
    "spec.template.metadata",
    "spec.template.metadata.labels",
    "spec.template.spec",
    "spec.template.spec.containers",
    "spec.template.spec.initContainers",
    "spec.template.spec.volumes",
    "spec.template.spec.restartPolicy",
    cases.CONTAINER,
    f"{cases.CONTAINER}.name",
    f"{cases.CONTAINER}.env",
    f"{cases.CONTAINER}.ports",
    f"{cases.CONTAINER}.volumeMounts",
    f"{cases.CONTAINER}.resources",
    f"{cases.CONTAINER}.resources.limits",
    "spec.storage",
    "spec.checkpoint",
    "spec.podFailurePolicy.rules",
)


def spec_of(manifest: dict[str, Any]) -> JobSpec:
    job = parse_job(manifest)
    assert job.spec is not None, job.errors
    return job.spec


def test_the_whole_resource_is_understood() -> None:
    spec = spec_of(yaml.safe_load(WHOLE))
    assert spec.model_dump(by_alias=True, exclude_unset=True, mode="json") == yaml.safe_load(WHOLE)["spec"]


def test_a_file_has_no_identity_yet() -> None:
    job = parse_job(cases.manifest(edits={"metadata": {"name": "digits"}}))
    assert (job.name, job.namespace, job.uid, job.generation) == ("digits", "default", "", 1)


def test_a_stored_object_keeps_its_identity() -> None:
    metadata = {
        "name": "digits",
        "namespace": "team",
        "uid": "u1",
        "generation": 7,
        "creationTimestamp": "2026-11-30T20:00:00Z",
        "deletionTimestamp": "2026-11-30T21:00:00Z",
        "managedFields": [],
    }
    job = parse_job(cases.manifest(edits={"metadata": metadata}))
    assert (job.uid, job.generation, job.deleting) == ("u1", 7, True)
    assert job.created_at == datetime(2026, 11, 30, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("strategy", "replicas"),
    [
        ("Mirrored", {"worker": 1}),
        ("MultiWorkerMirrored", {"worker": 2}),
        ("ParameterServer", {"chief": 1, "worker": 2, "ps": 1}),
    ],
)
def test_the_strategy_implies_roles(strategy: str, replicas: dict[str, int]) -> None:
    spec = spec_of(cases.manifest(strategy))
    assert {role: spec.replicas(role) for role in spec.roles_in_use()} == replicas


def test_what_is_left_out_gets_its_default() -> None:
    spec = spec_of(cases.manifest(edits={"spec.storage.claimName": "c"}))
    assert spec.storage is not None
    assert (
        spec.suspend,
        spec.managed_by,
        spec.backoff_limit,
        spec.clean_pod_policy,
        spec.success_policy.type,
        spec.success_policy.evaluator_grace_period_seconds,
        spec.network.policy,
        spec.storage.mount_path,
        spec.checkpoint.keep,
        spec.recovery.mode,
    ) == (False, "disttrain.dev/operator", 6, "Running", "Chief", 300, "Isolated", "/disttrain", 3, "Recreate")


def test_defaulting_twice_changes_nothing() -> None:
    spec = spec_of(cases.manifest("ParameterServer"))
    assert with_defaults(spec) == spec


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(PATHS), value=json_values)
def test_parsing_never_raises_and_says_spec_or_errors(path: str, value: Any) -> None:
    job = parse_job(cases.manifest("ParameterServer", {path: value}))
    assert (job.spec is None) == bool(job.errors)


@settings(max_examples=200, deadline=None)
@given(path=st.sampled_from(PATHS), value=json_values)
def test_faults_speak_no_pydantic(path: str, value: Any) -> None:
    job = parse_job(cases.manifest("ParameterServer", {path: value}))
    for error in job.errors:
        assert not error.message.startswith(("Input should", "Value error", "Field required", "Extra inputs"))


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(st.text(max_size=10), json_values, max_size=5))
def test_any_object_can_be_parsed(value: dict[str, Any]) -> None:
    assert parse_job(value).spec is None
