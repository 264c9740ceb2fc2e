"""What a person is told when a job cannot be run on this machine."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1  # a job Failed, or a run broke off half way
EXIT_UNUSABLE: Final = 2  # the manifest, the arguments or this machine do not allow the run to start


class LocalError(Exception):
    """One line for stderr: what cannot be done, why, and what to do about it. Shown without a traceback."""

    def __init__(self, message: str, exit_code: int = EXIT_UNUSABLE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def reason(error: OSError) -> str:
    """The operating system's own words without errno and path, such as `No space left on device`."""
    return error.strerror or str(error)
