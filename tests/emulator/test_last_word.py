"""A training process's last word (its agent's termination message) reaches the status; other messages harm nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.emulator.jobs import condition, job, mirrored, parameter_server
from tests.emulator.space import Space


def word(**parts: Any) -> str:
    """An agent's termination message, as GET /v1/status has it without the empty parts."""
    return json.dumps({"version": 1, "job": "digits", "role": "worker", "index": 0, "state": "exited", **parts})


async def test_the_end_of_training_is_in_the_status(space: Space) -> None:
    await space.submit(mirrored("digits"))
    await space.phase("digits", "Running")
    said = word(
        progress={"step": 500, "totalSteps": 500, "epoch": 5, "loss": 0.0625},
        checkpoint={"step": 500, "location": "/disttrain/x/checkpoints"},
        model={"location": "/disttrain/x/model", "metrics": {"accuracy": 0.97}},
    )
    await space.end("digits-worker-0", 0, message=said)
    status = (await space.phase("digits", "Succeeded"))["status"]
    told = {
        "step": status["progress"]["step"],
        "loss": status["progress"]["loss"],
        "checkpoint": status["checkpoint"]["step"],
        "model": status["model"]["location"],
    }
    assert told == {"step": 500, "loss": "0.0625", "checkpoint": 500, "model": "/disttrain/x/model"}


async def test_progress_is_a_column_of_kubectl_get(space: Space) -> None:
    await space.submit(mirrored("digits"))
    await space.phase("digits", "Running")
    said = word(progress={"step": 500, "totalSteps": 500, "loss": 0.0625})
    await space.end("digits-worker-0", 0, message=said)
    await space.phase("digits", "Succeeded")
    shown = space.installation.kubectl("-n", space.name, "get", "dtj").stdout
    assert "500/500 loss 0.0625" in shown


async def test_why_a_program_failed_is_told_in_its_own_words(space: Space) -> None:
    await space.submit(mirrored("digits", backoffLimit=0))
    await space.phase("digits", "Running")
    await space.end("digits-worker-0", 1, message=word(error="ValueError: no such dataset"))
    failed = await space.phase("digits", "Failed")
    assert failed["status"]["lastFailure"]["message"] == "ValueError: no such dataset"
    assert "ValueError: no such dataset" in condition(failed, "Failed")["message"]


async def test_the_steps_that_a_restart_lost_are_known(space: Space) -> None:
    await space.submit(parameter_server("digits"))
    await space.phase("digits", "Running")
    uid = space.uids()["digits-chief-0"]
    await space.end("digits-chief-0", 1, message=word(role="chief", progress={"step": 120}))
    await space.replaced("digits-chief-0", uid)
    await space.phase("digits", "Running")
    await space.end("digits-chief-0", 0, message=word(role="chief", progress={"step": 300}, resumedFrom=100))
    resumed = (await space.phase("digits", "Succeeded"))["status"]["lastResume"]
    assert (resumed["fromStep"], resumed["lostSteps"]) == (100, 20)


STRANGE = {
    "empty object": "{}",
    "not JSON": "Segmentation fault {[",
    "huge numbers": '{"version": 1, "progress": {"step": 1e400, "loss": -1e999}}',
    "wrong types": '{"version": "x", "progress": [1], "checkpoint": 3, "error": {"a": 1}}',
    "bare NaN": '{"version": 1, "progress": {"step": NaN, "loss": NaN}}',
    "control characters": "\x01\x02\ufffd" * 500,
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_message_that_is_no_report_harms_nobody(space: Space, name: str) -> None:
    await space.submit(job("digits", backoffLimit=0))
    await space.phase("digits", "Running")
    await space.end("digits-worker-1", 1, message=STRANGE[name])
    failed = await space.phase("digits", "Failed")
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
