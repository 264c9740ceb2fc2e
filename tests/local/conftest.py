from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.running import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """An empty directory to run `disttrain` in; whatever a test leaves running there is killed."""
    shell = Shell(tmp_path)
    yield shell
    shell.kill_rest()
