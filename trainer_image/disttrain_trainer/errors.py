"""What the trainer refuses, and how that reaches the person and the agent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from disttrain_agent.contract import EXIT_USAGE
from disttrain_trainer import reporting


class UsageError(Exception):
    """The program, the manifest or the environment asks for what cannot work; a restart would not help.

    The message names the object and field, the cause and the way out, in one line.
    """


@contextlib.contextmanager
def usage_errors_exit() -> Iterator[None]:
    """Turn a UsageError into one line on stderr, one report to the agent and exit code 64 (`EXIT_USAGE`).

    The agent passes the code on and the operator fails the job at once instead of restarting it.
    """
    try:
        yield
    except UsageError as error:
        reporting.error(str(error))
        reporting.say(str(error))
        raise SystemExit(EXIT_USAGE) from error
