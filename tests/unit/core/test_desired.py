"""What golden files cannot say of the objects: errors, attempts, images, and that nothing is shared by accident."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from disttrain import names
from disttrain.api.errors import FieldError
from disttrain.core import desired
from disttrain_agent import contract
from tests.unit.core.factory import SETTINGS, after, gang, job, mirrored, parameter_server, world

SETTLED = {"images": {"trainer": "settled/trainer:1", "agent": "settled/agent:1"}}


def variables(pod):
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


def test_a_job_without_a_valid_spec_has_no_objects():
    invalid = replace(gang(), spec=None, errors=(FieldError("spec", "is required"),))
    with pytest.raises(ValueError, match="DistTrainJob team-a/recsys has no valid spec"):
        desired.pod(invalid, names.WORKER, 0, 1, SETTINGS)


def test_a_role_the_job_does_not_have_has_no_pods():
    with pytest.raises(KeyError):
        desired.pod(gang(), names.PS, 0, 1, SETTINGS)


def test_a_pods_attempt_is_in_its_label_and_its_environment():
    pod = desired.pod(gang(), names.WORKER, 1, 7, SETTINGS)
    assert pod["metadata"]["labels"][names.LABEL_ATTEMPT] == "7"
    assert variables(pod)[contract.ENV_ATTEMPT] == "7"


def test_pods_of_the_current_attempt_are_those_of_one_by_one():
    of = after(parameter_server(), world())
    slots = [(names.CHIEF, 0), (names.PS, 1)]
    assert desired.pods(of, slots, SETTINGS) == tuple(
        desired.pod(of, role, index, 1, SETTINGS) for role, index in slots
    )


def test_default_images_are_those_the_job_began_with():
    command = {"template": {"spec": {"containers": [{"name": "trainer", "command": ["python", "train.py"]}]}}}
    of = replace(mirrored(**command), status=type(mirrored().status).from_manifest(SETTLED))
    spec = desired.pod(of, names.WORKER, 0, 1, SETTINGS)["spec"]
    assert spec["containers"][0]["image"] == "settled/trainer:1"
    assert spec["initContainers"][0]["image"] == "settled/agent:1"


def test_making_pods_leaves_the_template_as_it_was():
    of = job(storage={"claimName": "models"})
    before = copy.deepcopy(of.spec.template)
    desired.pods(of, [(names.WORKER, 0), (names.WORKER, 1)], SETTINGS)
    assert of.spec.template == before


def test_a_grace_period_of_zero_is_the_users_choice():
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "trainer"}]}}
    pod = desired.pod(mirrored(template=template), names.WORKER, 0, 1, SETTINGS)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 0
    assert variables(pod)[contract.ENV_GRACE_SECONDS] == "0"


def test_without_storage_there_is_no_run_directory():
    assert contract.ENV_RUN_DIR not in variables(desired.pod(gang(), names.WORKER, 0, 1, SETTINGS))


@pytest.mark.parametrize(("mount", "sub_path"), [("/data", ""), ("/data/", "runs"), ("/data", "runs/")])
def test_the_run_directory_is_the_jobs_own(mount, sub_path):
    of = gang(storage={"claimName": "models", "mountPath": mount, "subPath": sub_path})
    parts = ["/data", *(["runs"] if sub_path else []), "recsys-1a2b3c4d"]
    assert desired.run_directory(of, of.spec.storage) == "/".join(parts)


def test_every_object_is_owned_without_blocking_the_jobs_deletion():
    of = gang()
    objects = [desired.service(of), desired.network_policy(of, SETTINGS), desired.pod(of, names.CHIEF, 0, 1, SETTINGS)]
    for made in objects:
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (of.uid, True)
        assert "blockOwnerDeletion" not in owner


def test_the_cluster_is_the_roles_in_use():
    replicas = dict(desired.cluster(parameter_server(), SETTINGS).replicas)
    assert replicas == {"chief": 1, "worker": 2, "ps": 2}
