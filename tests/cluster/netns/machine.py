"""Whether this machine can hold the nodes, and the Debian packages they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster import cache
from tests.cluster.errors import ClusterError
from tests.cluster.netns import cgroups
from tests.cluster.netns.node_config import CNI_PLUGINS

# Debian package -> something that it installs.
_PACKAGES = {
    "busybox": "busybox",
    "conntrack": "conntrack",
    "containernetworking-plugins": str(CNI_PLUGINS / "bridge"),
    "iproute2": "ip",
    "iptables": "iptables",
    "nftables": "nft",
    "runc": "runc",
    "util-linux": "nsenter",
}


def require(say: cache.Say) -> None:
    """Installs missing Debian packages where it can. Raises ClusterError, one line, if the nodes cannot run here."""
    if not sys.platform.startswith("linux"):
        raise ClusterError(f"the netns cluster runs on Linux only, not on {sys.platform}; test on kind")
    if os.geteuid() != 0:
        raise ClusterError("the netns cluster makes network namespaces and mounts: run it as root, or test on kind")
    cgroups.hierarchies()
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    if "overlay" not in known and subprocess.run(["modprobe", "overlay"], check=False).returncode != 0:
        raise ClusterError("this kernel has no overlay file system (CONFIG_OVERLAY_FS), which containerd needs")
    missing = missing_packages()
    if missing:
        _install(missing, say)


def missing_packages() -> list[str]:
    return [package for package, what in _PACKAGES.items() if shutil.which(what, path=_search_path()) is None]


def _search_path() -> str:
    """An ordinary user's PATH lacks the administrator's programs."""
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


def _install(packages: list[str], say: cache.Say) -> None:
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise ClusterError(f"programs of these Debian packages are missing, and apt-get is not there: {names}")
    say(f"installing Debian packages: {names}")
    environment = cache.environment(DEBIAN_FRONTEND="noninteractive")
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            reason = (result.stderr.strip() or result.stdout.strip()).splitlines()[-1:]
            raise ClusterError(f"`{' '.join(command)}` failed: {reason[0] if reason else 'no output'}")
    still = missing_packages()
    if still:
        raise ClusterError(f"apt-get installed {names}, but programs of {' '.join(still)} are not on PATH")
