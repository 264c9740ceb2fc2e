"""SIGTERM as a question that the training loop asks between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

# Asked to stop while there is no storage: nothing could be saved, so the exit code is that of the signal.
EXIT_NOT_SAVED: Final = 128 + signal.SIGTERM


class StopSignal:
    """Holds whether SIGTERM has come; a context manager that puts the former handler back at its end.

    Enter it after the strategy was made: MultiWorkerMirroredStrategy replaces a handler that is there before.
    """

    def __init__(self) -> None:
        self.requested = False
        self._former: Any = None

    def __enter__(self) -> Self:
        # Python lets only the main thread set handlers; a program that trains in another one is not stopped this way.
        if threading.current_thread() is threading.main_thread():
            # None stands for a handler that was not set from Python: TensorFlow's own, of no use after training.
            self._former = signal.signal(signal.SIGTERM, self._on_signal) or signal.SIG_DFL
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._former is not None:
            signal.signal(signal.SIGTERM, self._former)

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        self.requested = True
