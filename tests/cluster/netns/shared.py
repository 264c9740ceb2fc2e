"""The netns cluster shared by the processes of a test run: the first starts it, the last ends it."""

from __future__ import annotations

from tests.cluster import cache
from tests.cluster.netns.cluster import Materials, Netns

_MARK = "started-by-tests"


class Shared:
    """A use of the cluster. `first`: nobody else uses it now, so it is for us to set it up.

    One that a person started stays up; one that a killed test run left is used again, and ended then.
    """

    def __init__(self, say: cache.Say) -> None:
        self.cluster = Netns.here()
        self._say = say
        materials = Materials.gather(self.cluster.root, say)
        with self.cluster.locked(say):
            self._users = cache.UserCount(self.cluster.root / "users")
            self.first = self._users.unused()
            self._users.join()
            if self.first and self.cluster.up_locked(materials, say):
                (self.cluster.state / _MARK).touch()

    def leave(self) -> None:
        """Ends the cluster if nobody else uses it and a test run started it."""
        with self.cluster.locked(self._say):
            if self._users.leave() and (self.cluster.state / _MARK).exists():
                self.cluster.down_locked(self._say)
