"""Waiting with a deadline for something that knows none."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Waiting:
    """Does `action` in a thread of its own, so that this one can stop waiting for it."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._act, daemon=True)
        self._thread.start()

    def for_seconds(self, seconds: float) -> bool:
        """True once the action is over, False if it is not after `seconds`. Raises what the action raised."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _act(self) -> None:
        try:
            self._action()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
