"""The names of the images that the tests use, as containerd knows them."""

from __future__ import annotations

PAUSE = "disttrain.test/pause:test"
BUSYBOX = "disttrain.test/busybox:test"
COREDNS = "disttrain.test/coredns:test"

# As in manifests/install.yaml; a name without a registry is docker.io/library's.
_VERSION = "0.1.0"
OPERATOR = f"docker.io/library/disttrain-operator:{_VERSION}"
TRAINER = f"docker.io/library/disttrain-trainer:{_VERSION}"
AGENT = f"docker.io/library/disttrain-agent:{_VERSION}"
