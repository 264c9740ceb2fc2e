"""Kubernetes' JSON reduced to pods: what is recognised, and that nothing can upset it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttrain import names
from disttrain.core import desired
from disttrain.core.model import Child
from disttrain.core.observe import EXIT_UNKNOWN, child_from_manifest, is_kubelet_rejection, pod_from_manifest
from tests.unit.core.factory import ANYTHING, NOW, SETTINGS, UID, gang

TRAINER = {"name": "trainer", "resources": {"limits": {"memory": "16Gi"}}}
TEMPLATE = {"spec": {"containers": [TRAINER, {"name": "logger", "image": "r/logger:1"}]}}
MADE = desired.pod(gang(template=TEMPLATE), "worker", 1, 3, SETTINGS)


def body(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod as the API server has it: made by us, with this status."""
    made = copy.deepcopy(MADE)
    made["metadata"].update({"uid": "pod-uid", **metadata})
    made["status"] = status or {}
    return made


def seen(status: dict[str, Any] | None = None, **metadata: Any):
    pod = pod_from_manifest(body(status, **metadata))
    assert pod is not None
    return pod


def container(state: dict[str, Any], phase: str = "Running", **facts: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": "trainer", "state": state, **facts}]}


def terminated(code: Any, at: str = "2026-12-01T12:00:00Z", **facts: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": at, **facts}}


# --- whose it is ---


def test_role_index_and_attempt_are_known():
    pod = seen()
    assert (pod.name, pod.uid, pod.owner_uid) == ("recsys-worker-1", "pod-uid", UID)
    assert (pod.role, pod.index, pod.attempt) == ("worker", 1, 3)


def test_edited_labels_do_not_move_a_pod_to_another_place():
    labels = {**MADE["metadata"]["labels"], names.LABEL_ROLE: "chief", names.LABEL_INDEX: "9"}
    pod = seen(labels=labels)
    assert (pod.role, pod.index) == ("worker", 1)


@pytest.mark.parametrize("label", [None, "", "x", "-1", "1.5", "9" * 30, "٣"])
def test_a_missing_or_edited_attempt_is_older_than_any(label):
    assert seen(labels={names.LABEL_ATTEMPT: label}).attempt == 0


def test_a_pod_without_an_owner_belongs_to_nobody():
    assert seen(ownerReferences=[]).owner_uid == ""


def test_an_owner_that_is_not_the_controller_does_not_count():
    owners = [{**MADE["metadata"]["ownerReferences"][0], "controller": False}]
    assert seen(ownerReferences=owners).owner_uid == ""


@pytest.mark.parametrize(
    "name", ["recsys", "recsys-worker", "recsys-worker-x", "recsys-worker-01", "recsys-boss-0", "other-worker-1", ""]
)
def test_other_pods_are_none_of_ours(name):
    assert pod_from_manifest(body(name=name)) is None


def test_a_job_whose_name_looks_like_a_pod_is_told_apart():
    of = gang()
    made = desired.pod(of, "worker", 1, 1, SETTINGS)
    made = json.loads(json.dumps(made).replace("recsys", "a-worker-0"))
    made["metadata"]["uid"] = "u"
    pod = pod_from_manifest(made)
    assert (pod.role, pod.index, pod.name) == ("worker", 1, "a-worker-0-worker-1")


def test_children_are_known_by_their_controller():
    metadata = {"name": "recsys", "uid": "u", "ownerReferences": MADE["metadata"]["ownerReferences"]}
    assert child_from_manifest("Service", {"metadata": metadata}) == Child(
        "Service", "recsys", "u", UID, deleting=False
    )


# --- running and ready ---


def test_a_running_pod():
    pod = seen(container({"running": {"startedAt": "2026-12-01T12:00:00Z"}}, ready=True))
    assert (pod.running, pod.ready, pod.exit, pod.waiting_reason) == (True, True, None, None)


def test_running_without_a_start_time_is_running():
    assert seen(container({"running": {}})).running


def test_a_pod_that_is_being_deleted_is_not_ready():
    status = container({"running": {}}, ready=True)
    assert not seen(status, deletionTimestamp="2026-12-01T12:00:30Z").ready


def test_an_injected_sidecar_is_not_taken_for_the_trainer():
    injected = body(container({"running": {}}, ready=True))
    injected["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    injected["status"]["containerStatuses"].insert(0, {"name": "istio-proxy", "state": {"waiting": {"reason": "X"}}})
    assert pod_from_manifest(injected).ready


def test_a_sidecar_that_outlives_the_trainer_is_seen():
    status = container(terminated(0))
    status["containerStatuses"].append({"name": "logger", "state": {"running": {}}})
    pod = seen(status)
    assert (pod.exit.code, pod.sidecars_running) == (0, True)


# --- how it ended ---


def test_an_exit_has_code_reason_and_time():
    ended = seen(container(terminated(7, reason="Error"))).exit
    assert (ended.code, ended.reason, ended.finished_at) == (7, "Error", NOW)


def test_out_of_memory_names_the_limit():
    ended = seen(container(terminated(137, reason="OOMKilled"))).exit
    assert ended.reason == "OOMKilled"
    assert "container trainer exceeded its memory limit of 16Gi" in ended.message


def test_out_of_memory_without_a_limit_is_the_nodes():
    unlimited = body(container(terminated(137, reason="OOMKilled")))
    unlimited["spec"]["containers"][0].pop("resources")
    assert "no memory limit" in pod_from_manifest(unlimited).exit.message


@pytest.mark.parametrize(("code", "signal"), [(137, "SIGKILL"), (139, "SIGSEGV"), (143, "SIGTERM")])
def test_a_signal_is_named(code, signal):
    assert signal in seen(container(terminated(code))).exit.message


def test_the_agents_last_word_is_read():
    word = {"version": 1, "error": "ValueError: bad shape", "progress": {"step": 1200}, "attempt": 3}
    ended = seen(container(terminated(1, message=json.dumps(word)))).exit
    assert (ended.report.step, ended.report.attempt, ended.message) == (1200, 3, "ValueError: bad shape")


def test_without_an_agent_the_last_line_of_the_log_is_the_message():
    tail = "Traceback (most recent call last):\n  File ...\nValueError: bad shape\n"
    ended = seen(container(terminated(1, message=tail))).exit
    assert (ended.report, ended.message) == (None, "ValueError: bad shape")


def test_an_evicted_pod_says_why():
    pod = seen({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})
    assert (pod.disruption, pod.exit.code) == ("Evicted", EXIT_UNKNOWN)
    assert pod.exit.message == "The node was low on resource: memory."


def test_an_evicted_pod_whose_container_left_a_code_says_both():
    status = {**container(terminated(137), "Failed"), "reason": "Evicted", "message": "low on memory"}
    pod = seen(status)
    assert (pod.disruption, pod.exit.code, pod.exit.message) == ("Evicted", 137, "low on memory; killed by SIGKILL")


def test_a_failed_init_container_is_named_and_its_code_is_not_taken_for_the_agents():
    status = {"phase": "Failed", "initContainerStatuses": [{"name": "fetch", "state": terminated(64, message="404")}]}
    ended = seen(status).exit
    assert (ended.code, ended.reason) == (EXIT_UNKNOWN, names.REASON_INIT_CONTAINER_FAILED)
    assert ended.message == "init container fetch exited 64: 404"


def test_a_pod_that_succeeded_without_saying_more_exited_0():
    assert seen({"phase": "Succeeded"}).exit.code == 0


@pytest.mark.parametrize("code", [None, "0", True, 2**40, -5, [], {}])
def test_a_code_that_is_none_is_unknown_and_no_success(code):
    assert seen(container(terminated(code))).exit.code == EXIT_UNKNOWN


# --- who ended it ---


@pytest.mark.parametrize(
    "reason",
    [
        "Evicted",
        "Preempting",
        "NodeShutdown",
        "Terminated",
        "NodeLost",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfpods",
    ],
)
def test_kubernetes_words_for_a_disruption(reason):
    assert seen({"phase": "Failed", "reason": reason}).disruption == reason


def target(reason: str, at: str = "2026-12-01T12:00:00Z", status: str = "True") -> list[dict[str, str]]:
    return [{"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": at}]


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI"])
def test_disruption_target(reason):
    status = {**container(terminated(143), "Failed"), "conditions": target(reason)}
    assert seen(status).disruption == reason


def test_a_disruption_that_was_taken_back_is_none():
    assert seen({**container({"running": {}}), "conditions": target("X", status="False")}).disruption is None


def test_a_program_that_had_finished_before_the_disruption_has_finished():
    status = {
        **container(terminated(0, at="2026-12-01T11:59:59Z"), "Succeeded"),
        "conditions": target("DeletionByPodGC"),
    }
    assert seen(status).disruption is None


DELETED_AT_NOON = {"deletionTimestamp": "2026-12-01T12:00:30Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("ended", "disruption"),
    [
        ("2026-12-01T11:59:59Z", None),
        ("2026-12-01T12:00:00Z", names.REASON_POD_DELETED),
        ("2026-12-01T12:00:10Z", names.REASON_POD_DELETED),
    ],
    ids=["before", "in the same second", "after"],
)
@pytest.mark.parametrize("code", [0, 1, 143])
def test_what_ends_after_it_was_told_to_go_obeyed(code, ended, disruption):
    assert seen(container(terminated(code, at=ended)), **DELETED_AT_NOON).disruption == disruption


def test_a_running_pod_that_is_being_deleted_is_disrupted():
    pod = seen(container({"running": {}}), **DELETED_AT_NOON)
    assert (pod.deleting, pod.disruption, pod.exit) == (True, names.REASON_POD_DELETED, None)


@pytest.mark.parametrize(
    ("reason", "rejected"), [("OutOfmemory", True), ("NodeAffinity", True), ("Evicted", False), (None, False)]
)
def test_rejections_by_the_kubelet(reason, rejected):
    assert is_kubelet_rejection(reason) is rejected


# --- why it does not run yet ---

WAITING = {
    "unschedulable": (
        {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            ]
        },
        ("Unschedulable", "0/3 nodes"),
    ),
    "image": (
        container({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling r/x:7"}}, "Pending"),
        ("ImagePullBackOff", "Back-off pulling r/x:7"),
    ),
    "configuration": (
        container({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}, "Pending"),
        ("CreateContainerConfigError", 'secret "s" not found'),
    ),
    "crash loop": (container({"waiting": {"reason": "CrashLoopBackOff"}}), ("CrashLoopBackOff", "")),
    "creating": (container({"waiting": {"reason": "ContainerCreating"}}, "Pending"), ("ContainerCreating", "")),
    "image of an init container": (
        {
            **container({"waiting": {"reason": "PodInitializing"}}, "Pending"),
            "initContainerStatuses": [
                {"name": "fetch", "state": {"waiting": {"reason": "ErrImagePull", "message": "404"}}}
            ],
        },
        ("ErrImagePull", "init container fetch: 404"),
    ),
    "an init container runs": (
        {
            **container({"waiting": {"reason": "PodInitializing"}}, "Pending"),
            "initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}],
        },
        ("PodInitializing", "init container fetch is running"),
    ),
    "image of a sidecar": (
        {
            "containerStatuses": [
                {"name": "trainer", "state": {"waiting": {"reason": "ContainerCreating"}}},
                {"name": "logger", "state": {"waiting": {"reason": "ErrImagePull", "message": "404"}}},
            ]
        },
        ("ErrImagePull", "404"),
    ),
    "nothing known": ({"phase": "Pending"}, (None, "")),
}


@pytest.mark.parametrize(("status", "expected"), WAITING.values(), ids=WAITING.keys())
def test_the_reason_for_waiting(status, expected):
    pod = seen(status)
    assert (pod.waiting_reason, pod.waiting_message) == expected


# --- anything at all ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    *("phase", "reason", "message", "conditions", "type", "status", "lastTransitionTime", "name", "state", "started"),
    *(
        "containerStatuses",
        "initContainerStatuses",
        "terminated",
        "running",
        "waiting",
        "exitCode",
        "finishedAt",
        "ready",
    ),
]
POD_LIKE = st.recursive(
    JSON
    | st.sampled_from(["trainer", "Failed", "DisruptionTarget", "True", "OOMKilled", "0001-01-01T00:00:00+01:00", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@ANYTHING
@given(status=POD_LIKE, metadata=st.dictionaries(st.sampled_from(sorted(MADE["metadata"])), JSON, max_size=4))
def test_garbage_is_survived(status, metadata):
    made = body(**metadata)
    made["status"] = status
    pod_from_manifest(made)


@ANYTHING
@given(spec=JSON, deleted=JSON, grace=JSON)
def test_a_garbled_spec_or_deletion_is_survived(spec, deleted, grace):
    made = body(container(terminated(0)), deletionTimestamp=deleted, deletionGracePeriodSeconds=grace)
    made["spec"] = spec
    pod_from_manifest(made)


@ANYTHING
@given(metadata=JSON)
def test_a_garbled_child_is_survived(metadata):
    child_from_manifest("Service", {"metadata": metadata})
