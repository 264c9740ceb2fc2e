"""What the operator says of itself. That its health fails when a watch or the queue is dead is shown in tests/unit: it
takes longer than a test should."""

from __future__ import annotations

import json

from tests.emulator.installation import Installation


def test_a_healthy_operator_says_so(turn: None, installation: Installation) -> None:
    code, body = installation.operator.probe("/healthz")
    assert (code, json.loads(body)) == (200, {"status": "ok"})


def test_an_operator_that_has_seen_everything_is_ready(turn: None, installation: Installation) -> None:
    code, body = installation.operator.probe("/readyz")
    assert (code, json.loads(body)) == (200, {"status": "ok"})
