"""How an error that ends a verb is worded."""

from __future__ import annotations

import traceback
from typing import Final

INTERNAL: Final = 1


def explain(error: Exception, verbose: bool) -> tuple[str, int]:
    """The text for stderr, with its line ends, and the exit code."""
    from disttrain.local.errors import LocalError

    cause = _cause(error)
    trace = "".join(traceback.format_exception(error)) if verbose else ""
    if isinstance(cause, LocalError):
        return f"{trace}disttrain: {cause}\n", cause.exit_code
    words = " ".join(str(cause).split())
    hint = "" if verbose else " (-v shows where; please report it)"
    return f"{trace}disttrain: internal error: {type(cause).__name__}: {words}{hint}\n", INTERNAL


def _cause(error: BaseException) -> BaseException:
    """The first error of a task group's: the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
