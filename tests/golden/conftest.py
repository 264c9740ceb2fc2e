"""Golden files: what is rendered is compared with a file a person has looked at.

`pytest tests/golden --update-golden` writes the files anew; look at the difference before you commit it. A plain run
never writes.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


class Golden:
    """Compares texts and documents with the files under `data`."""

    def __init__(self, update: bool) -> None:
        self._update = update

    def matches(self, name: str, text: str) -> None:
        path = DATA / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; write it with `pytest tests/golden --update-golden`")
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "rendered", lineterm="")
            pytest.fail("\n".join(lines), pytrace=False)

    def matches_yaml(self, name: str, documents: object) -> None:
        """A list of objects as a YAML file of as many documents."""
        self.matches(name, yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, width=120))


class _Plain(yaml.SafeDumper):
    """Without anchors: pods of one role share parts, and a reader wants to see each of them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=request.config.getoption("--update-golden", default=False))
