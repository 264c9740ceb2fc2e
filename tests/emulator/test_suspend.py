"""Suspending and resuming."""

from __future__ import annotations

from tests.emulator.audit import AuditLog
from tests.emulator.jobs import job, parameter_server, template
from tests.emulator.space import Space, attempt


async def test_a_job_created_suspended_makes_no_pod_until_it_is_resumed(space: Space) -> None:
    await space.submit(job("digits", suspend=True))
    await space.phase("digits", "Suspended")
    assert space.watch("Pod").history == []
    await space.patch("digits", {"suspend": False})
    await space.phase("digits", "Running")


async def test_suspending_removes_every_pod_and_counts_nothing(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    await space.patch("digits", {"suspend": True})
    await space.until(lambda: not space.pods(), "no pod is left")
    status = (await space.phase("digits", "Suspended"))["status"]
    assert (status.get("restarts", 0), status.get("disruptions", 0)) == (0, 0)


async def test_a_resumed_job_runs_as_a_new_attempt(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    await space.patch("digits", {"suspend": True})
    await space.phase("digits", "Suspended")
    await space.patch("digits", {"suspend": False})
    running = await space.phase("digits", "Running")
    assert {attempt(pod) for pod in space.pods().values()} == {running["status"]["attempt"]} == {2}


async def test_a_job_resumed_before_its_old_pods_are_gone_waits_for_them(space: Space) -> None:
    await space.submit(job("digits", template=template(stop_after="2s")))
    await space.phase("digits", "Running")
    await space.patch("digits", {"suspend": True})
    await space.phase("digits", "Suspended")
    await space.patch("digits", {"suspend": False})
    await space.phase("digits", "Running")
    history = [(change.type, attempt(change.object)) for change in space.watch("Pod").history]
    last_old = max(place for place, (_, each) in enumerate(history) if each == 1)
    first_new = min(place for place, (_, each) in enumerate(history) if each == 2)
    assert last_old < first_new


async def test_a_suspended_job_may_change_its_template(space: Space) -> None:
    await space.submit(job("digits", suspend=True))
    await space.phase("digits", "Suspended")
    changed = template(exit_code="0", run_for="1s")
    await space.patch("digits", {"template": changed, "suspend": False})
    await space.phase("digits", "Succeeded")


async def test_a_suspended_job_can_be_deleted(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    await space.patch("digits", {"suspend": True})
    await space.phase("digits", "Suspended")
    await space.delete("digits")
    await space.empty()


async def test_a_job_of_another_manager_is_not_touched(space: Space, audit: AuditLog) -> None:
    await space.submit(job("elsewhere", managedBy="kueue.x-k8s.io/multikueue"))
    await space.submit(job("here"))
    await space.phase("here", "Running")
    touched = {request.name for request in audit.requests(namespace=space.name) if "elsewhere" in request.name}
    assert touched == set()
