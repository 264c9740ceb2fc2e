"""The API server (schema, CEL, policies) and the offline checks come to the same verdict on every manifest."""

from __future__ import annotations

import json

import pytest

from tests.emulator.installation import Installation
from tests.unit.api import cases

SEEN = [case for case in cases.BAD if case.admission is not None]
UNSEEN = [case for case in cases.BAD if case.admission is None]


def verdict(installation: Installation, case: cases.Case) -> tuple[int, str]:
    """Exit code and words of `kubectl create`, which changes nothing here."""
    manifest = {**case.manifest, "metadata": {**case.manifest["metadata"], "namespace": "default"}}
    result = installation.kubectl(
        "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(manifest)
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.id)
def test_a_fault_is_refused_with_its_path(turn: None, installation: Installation, case: cases.Case) -> None:
    code, words = verdict(installation, case)
    assert code == 1
    assert case.admission is not None
    assert case.admission in words


@pytest.mark.parametrize("case", [*cases.GOOD, *UNSEEN], ids=lambda case: case.id)
def test_what_is_valid_or_cannot_be_seen_is_admitted(turn: None, installation: Installation, case: cases.Case) -> None:
    assert verdict(installation, case) == (0, "")
