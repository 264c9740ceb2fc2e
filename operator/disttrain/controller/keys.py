"""What the shell calls things: the key of a job and the resources it watches and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from typing_extensions import override

from disttrain import names

JOB: Final = names.KIND
POD: Final = "Pod"
SERVICE: Final = "Service"
NETWORK_POLICY: Final = "NetworkPolicy"
EVENT: Final = "Event"


class JobKey(NamedTuple):
    """Which job: the unit of work of the queue. A job deleted and made again under its name keeps its key."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server has it."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """`apiVersion` of its manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object or of its subresource. Names are DNS labels: no quoting."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = [root, "namespaces", namespace, self.plural, name, subresource]
        return "/".join(step for step in steps if step)


RESOURCES: Final[dict[str, Resource]] = {
    resource.kind: resource
    for resource in (
        Resource(JOB, names.GROUP, names.VERSION, names.PLURAL),
        Resource(POD, "", "v1", "pods"),
        Resource(SERVICE, "", "v1", "services"),
        Resource(NETWORK_POLICY, "networking.k8s.io", "v1", "networkpolicies"),
        Resource(EVENT, "events.k8s.io", "v1", "events"),
    )
}
WATCHED: Final = (JOB, POD, SERVICE, NETWORK_POLICY)
"""Listed and watched; all but the jobs only where they carry the label of a job's name."""
