"""What a person sees through kubectl."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from tests.emulator.jobs import job, parameter_server, template
from tests.emulator.kube import RefusedError
from tests.emulator.space import Space


async def kubectl(space: Space, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """kubectl in the test's namespace, while the watches go on."""
    return await asyncio.to_thread(space.installation.kubectl, "-n", space.name, *arguments, stdin=stdin)


async def table(space: Space, *arguments: str) -> list[list[str]]:
    """The words of each line of `kubectl get`."""
    return [line.split() for line in (await kubectl(space, "get", *arguments)).stdout.splitlines()]


async def test_get_shows_strategy_phase_readiness_and_restarts(space: Space) -> None:
    roles = {"worker": {"replicas": 3}, "chief": {"template": template(waiting="ImagePullBackOff")}}
    await space.submit(job("digits", roles=roles))
    await space.until(lambda: space.status("digits").get("ready") == "3/4", "three of four pods are ready")
    header, row = await table(space, "dtj")
    assert header == ["NAME", "STRATEGY", "PHASE", "READY", "PROGRESS", "RESTARTS", "AGE"]
    assert row[:5] == ["digits", "MultiWorkerMirrored", "Pending", "3/4", "0"]  # no progress without an agent


async def test_get_all_shows_the_job(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    assert any(row[:1] == ["disttrainjob.disttrain.dev/digits"] for row in await table(space, "all"))


async def test_wait_for_succeeded(space: Space) -> None:
    await space.submit(job("digits", template=template(exit_code="0", run_for="1s")))
    waited = await kubectl(space, "wait", "--for=condition=Succeeded", "dtj/digits", "--timeout=60s")
    assert waited.stdout == "disttrainjob.disttrain.dev/digits condition met\n"


async def test_describe_shows_the_events_of_a_jobs_life(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-worker-0"]
    await space.end("digits-worker-0", 1)
    await space.replaced("digits-worker-0", uid)
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0)
    await space.phase("digits", "Succeeded")
    expected = {"PodsCreated", "JobRunning", "RoleFailed", "Succeeded"}
    async with asyncio.timeout(20):  # events follow the status they belong to
        while not expected <= await reasons(space):  # noqa: ASYNC110  # a watch would say no more
            await asyncio.sleep(0.2)


async def reasons(space: Space) -> set[str]:
    events = await space.kube.list("Event", space.name)
    return {event["reason"] for event in events if event["regarding"]["name"] == "digits"}


async def test_explain_knows_every_field_that_a_user_may_write(space: Space) -> None:
    explained = await kubectl(space, "explain", "dtj.spec")
    fields = ("strategy", "template", "roles", "suspend", "backoffLimit", "cleanPodPolicy", "successPolicy", "storage")
    assert [field for field in fields if f"  {field}\t<" not in explained.stdout] == []


async def test_scale_reports_the_workers(space: Space) -> None:
    await space.submit(job("digits"))
    await space.phase("digits", "Running")
    path = f"/apis/disttrain.dev/v1alpha1/namespaces/{space.name}/disttrainjobs/digits/scale"
    scale = json.loads((await kubectl(space, "get", "--raw", path)).stdout)
    selector = "disttrain.dev/job-name=digits,disttrain.dev/role=worker"
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 2, "selector": selector})


# --- what is no manifest ---
async def test_a_field_given_twice_is_refused_by_the_api_server(space: Space) -> None:
    # kubectl keeps the last of two equal YAML keys and tells nobody, so this is asked of the API server itself.
    text = json.dumps(job("digits")).replace('"strategy":', '"strategy": "Mirrored", "strategy":')
    with pytest.raises(RefusedError, match=r'duplicate field "spec\.strategy"'):
        await space.kube.create_strict("DistTrainJob", space.name, text)


async def test_an_empty_file_is_refused(space: Space) -> None:
    refused = await kubectl(space, "create", "-f", "-", stdin="")
    assert (refused.returncode, refused.stderr) == (1, "error: no objects passed to create\n")
