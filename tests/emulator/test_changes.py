"""What may change in a job, when, and by whom: the CRD's transition rules and the admission policies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.emulator.jobs import job, mirrored, parameter_server, template
from tests.emulator.kube import Kube, Manifest, RefusedError
from tests.emulator.space import Space

EVE = "eve"  # may do everything with jobs and nothing with pods
PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.02
OTHER_TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": "example.test/other:1"}]}}


async def refusal(space: Space, name: str, patch: Manifest, kube: Kube | None = None, subresource: str = "") -> str:
    """What the API server says against a change; empty if it accepts it."""
    try:
        await (kube or space.kube).patch("DistTrainJob", space.name, name, patch, subresource)
    except RefusedError as error:
        return error.message
    return ""


async def eve(space: Space) -> Kube:
    """A user who has every right on jobs in this namespace, and no other."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "jobs-only"},
        "rules": [{"apiGroups": ["disttrain.dev"], "resources": ["*"], "verbs": ["*"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "jobs-only"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs-only"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EVE}],
    }
    await space.kube.create(role, space.name)
    await space.kube.create(binding, space.name)
    user = space.kube.impersonating(EVE)
    async with asyncio.timeout(PATIENCE_SECONDS):  # the authorizer learns of a binding a moment after it was stored
        while not await may_list(user, space.name):  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(POLL_SECONDS)
    return user


async def may_list(user: Kube, namespace: str) -> bool:
    try:
        await user.list("DistTrainJob", namespace)
    except RefusedError:
        return False
    return True


IMMUTABLE: dict[str, Any] = {
    "managedBy": "example.test/other",
    "successPolicy": {"evaluatorGracePeriodSeconds": 3},
    "network": {"policy": "None"},
    "recovery": {"mode": "Recreate"},
    "storage": {"claimName": "runs"},
    "roles.ps.replicas": 3,
}
WHILE_SUSPENDED: dict[str, Any] = {
    "template": OTHER_TEMPLATE,
    "template.spec.hostNetwork": True,
    "roles.worker.template": OTHER_TEMPLATE,
    "roles.ps.resources": {"limits": {"cpu": "1"}},
    "roles.ps.nodeSelector": {"pool": "cpu"},
    "roles.ps.tolerations": [{"key": "cpu"}],
}


def at(path: str, value: Any) -> Manifest:
    """A merge patch of one field of the spec."""
    for step in reversed(path.split(".")):
        value = {step: value}
    return {"spec": value}


@pytest.mark.parametrize("path", IMMUTABLE)
async def test_what_never_changes(space: Space, path: str) -> None:
    await space.submit(parameter_server("fixed", suspend=True))
    assert f"spec.{path}: Invalid value: field is immutable" in await refusal(space, "fixed", at(path, IMMUTABLE[path]))


async def test_the_strategy_never_changes(space: Space) -> None:
    await space.submit(job("fixed", suspend=True))
    said = await refusal(space, "fixed", at("strategy", "Mirrored"))
    assert "spec.strategy: Invalid value: field is immutable" in said


@pytest.mark.parametrize("role", ["chief", "ps"])
async def test_roles_are_not_taken_away(space: Space, role: str) -> None:
    await space.submit(parameter_server("fixed", suspend=True))
    said = await refusal(space, "fixed", at(f"roles.{role}", None))
    assert f"spec.roles.{role}: Invalid value: role {role} can be neither added nor removed" in said


async def test_roles_are_not_added(space: Space) -> None:
    await space.submit(job("fixed", suspend=True))
    said = await refusal(space, "fixed", at("roles.evaluator", {}))
    assert "spec.roles.evaluator: Invalid value: role evaluator can be neither added nor removed" in said


async def test_scale_makes_no_role(space: Space) -> None:
    await space.submit(mirrored("one", suspend=True))
    said = await refusal(space, "one", {"spec": {"replicas": 1}}, subresource="scale")
    assert "role worker can be neither added nor removed" in said


@pytest.mark.parametrize("path", WHILE_SUSPENDED)
async def test_pods_do_not_change_under_a_running_job(space: Space, path: str) -> None:
    await space.submit(parameter_server("running"))
    said = await refusal(space, "running", at(path, WHILE_SUSPENDED[path]))
    assert "changes only while the job is suspended" in said


@pytest.mark.parametrize("path", WHILE_SUSPENDED)
async def test_pods_change_while_the_job_is_suspended(space: Space, path: str) -> None:
    await space.submit(parameter_server("suspended", suspend=True))
    assert await refusal(space, "suspended", at(path, WHILE_SUSPENDED[path])) == ""


async def test_suspending_and_changing_at_once_is_refused(space: Space) -> None:
    await space.submit(job("running"))
    said = await refusal(space, "running", {"spec": {"suspend": True, "template": OTHER_TEMPLATE}})
    assert "spec.template: changes only while the job is suspended" in said


async def test_an_undeclared_field_of_a_template_is_not_swapped_for_another(space: Space) -> None:
    """CEL rules of a CRD see no difference here; the admission policy does."""
    selecting = template()
    selecting["spec"]["nodeSelector"] = {"pool": "gpu"}
    await space.submit(job("running", template=selecting))
    said = await refusal(space, "running", at("template.spec", {"nodeSelector": None, "hostNetwork": True}))
    assert "spec.template: changes only while the job is suspended" in said


async def test_limits_and_policies_change_any_time(space: Space) -> None:
    await space.submit(job("running", storage={"claimName": "runs"}))
    patch = {"spec": {"backoffLimit": 9, "cleanPodPolicy": "All", "checkpoint": {"keep": 5}}}
    assert await refusal(space, "running", patch) == ""


async def test_who_may_not_create_pods_may_not_create_a_job(space: Space) -> None:
    user = await eve(space)
    with pytest.raises(RefusedError, match=f"eve may not create pods in namespace {space.name}"):
        await user.create(job("hers"), space.name)


@pytest.mark.parametrize("subresource", ["", "scale"])
async def test_who_may_not_create_pods_may_not_scale(space: Space, subresource: str) -> None:
    user = await eve(space)
    await space.submit(job("theirs"))
    patch = {"spec": {"replicas": 5}} if subresource else at("roles.worker.replicas", 5)
    assert "eve may not create pods" in await refusal(space, "theirs", patch, user, subresource)


async def test_who_may_not_create_pods_may_not_resume(space: Space) -> None:
    user = await eve(space)
    await space.submit(job("theirs", suspend=True))
    assert "eve may not create pods" in await refusal(space, "theirs", at("suspend", False), user)


async def test_metadata_is_free_so_that_the_garbage_collector_can_work(space: Space) -> None:
    user = await eve(space)
    await space.submit(job("theirs"))
    patch = {"metadata": {"labels": {"team": "a"}, "finalizers": ["example.test/hold"]}}
    assert await refusal(space, "theirs", patch, user) == ""
    assert await refusal(space, "theirs", {"metadata": {"finalizers": None}}, user) == ""
