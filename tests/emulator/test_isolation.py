"""A broken job harms nobody."""

from __future__ import annotations

import asyncio

from tests.emulator.jobs import condition, job, template
from tests.emulator.kube import Manifest
from tests.emulator.space import Space
from tests.unit.api import cases

UNSEEN = [case for case in cases.BAD if case.admission is None]
"""Faults in pod templates, which the API server does not look into before there is a pod."""


def broken(case: cases.Case) -> Manifest:
    return {**case.manifest, "metadata": {"name": case.id}}


async def test_what_admission_cannot_see_fails_with_the_field_and_makes_nothing(space: Space) -> None:
    await asyncio.gather(*(space.submit(broken(case)) for case in UNSEEN))
    told = {}
    for case in UNSEEN:
        failed = condition(await space.phase(case.id, "Failed"), "Failed")
        told[case.id] = (failed["reason"], case.error in failed["message"])
    assert told == {case.id: ("InvalidSpec", True) for case in UNSEEN}
    assert space.pods() == {}


async def test_a_good_job_runs_beside_broken_ones(space: Space) -> None:
    await asyncio.gather(*(space.submit(broken(case)) for case in UNSEEN), space.submit(job("good")))
    await space.phase("good", "Running")


async def test_a_job_that_always_fails_does_not_disturb_another(space: Space) -> None:
    await space.submit(job("bad", template=template(exit_code="1"), backoffLimit=1))
    await space.submit(job("good"))
    await space.phase("bad", "Failed")
    good = await space.phase("good", "Running")
    assert (good["status"]["attempt"], good["status"].get("restarts", 0)) == (1, 0)
