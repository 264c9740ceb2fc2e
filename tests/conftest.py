"""What holds for every suite."""

from __future__ import annotations

from hypothesis import settings

# No deadline: a machine under load is not a fault of the code. Examples are the same in every run: a failure that a
# new seed finds belongs into the test as an example, not into somebody else's pull request.
settings.register_profile("disttrain", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("disttrain")
