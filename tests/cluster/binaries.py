"""Builds the programs of the test clusters from pinned Go modules, once for each set of pins.

Nothing is downloaded but Go modules, checked against go.sum. The result lies outside the checkout, in a directory
named after everything it depends on, so a changed pin is a new directory and an old checkout still finds its own.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cache, golang
from tests.cluster.errors import ClusterError

KUBERNETES_VERSION = (1, 36, 3)
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """A Go main package; `components` are the names under which the one binary is called (argv[0])."""

    name: str
    package: str
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A Go module of ours (a directory beside this file) and the programs that it pins; `tags` are build tags."""

    directory: str
    programs: tuple[Program, ...]
    tags: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return _HERE / self.directory


CONTROL_PLANE = Module(
    "go",
    (
        # One binary for the components of Kubernetes: five would link the same 100 MB five times.
        Program(
            "hyper", "./hyper", ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
        ),
        Program("etcd", "go.etcd.io/etcd/server/v3"),
        Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ),
)
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
CONTAINERD = Module(
    "go-containerd",
    tuple(Program(name, f"{_CONTAINERD}/{name}") for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
    tags=("no_btrfs", "no_zfs", "no_devmapper"),  # snapshotters that need cgo, or disks of their own
)
# Modules of their own: CoreDNS would lift Kubernetes' dependencies to versions it was not released with, and the
# policy engine does not compile with those that Kubernetes was.
COREDNS = Module("go-coredns", (Program("coredns", "."),))
NODE = Module("go-node", (Program("netpol", "./netpol"), Program("pause", "./pause")))
NODE_MODULES = (CONTROL_PLANE, CONTAINERD, COREDNS, NODE)

_VERSION_PACKAGE = "k8s.io/component-base/version"
# Without these the API server reports v0.0.0, and kubectl and CEL's version checks go by that.
_VERSION_FLAGS = {
    "gitVersion": "v" + ".".join(map(str, KUBERNETES_VERSION)),
    "gitMajor": KUBERNETES_VERSION[0],
    "gitMinor": KUBERNETES_VERSION[1],
    "gitTreeState": "clean",
}
_LDFLAGS = " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in _VERSION_FLAGS.items())])
_HEARTBEAT_SECONDS = 60.0
_NO_SPACE = "no space left on device"


def ensure(say: cache.Say, module: Module = CONTROL_PLANE) -> Path:
    """The directory with every program and component of a module, built now if it is not there.

    A first build compiles Kubernetes: about 12 minutes on two cores, 9 GB of Go's own caches. Raises ClusterError.
    """
    go = golang.find(say)
    directory = cache.root() / "bin" / _key(go, module)
    if _missing(directory, module):
        directory.mkdir(parents=True, exist_ok=True)
        with cache.exclusive(directory.with_suffix(".lock"), "building the test cluster", say):
            for program in _missing(directory, module):
                _build(go, module, program, directory, say)
    return directory


def _key(go: golang.Go, module: Module) -> str:
    digest = hashlib.sha256(f"{go.version}\0{_LDFLAGS}\0{module}".encode())
    sources = sorted(
        path for path in module.path.rglob("*") if path.suffix == ".go" or path.name in ("go.mod", "go.sum")
    )
    for path in sources:
        digest.update(f"{path.relative_to(module.path)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _missing(directory: Path, module: Module) -> list[Program]:
    return [
        program
        for program in module.programs
        if not all((directory / name).exists() for name in (program.name, *program.components))
    ]


def _build(go: golang.Go, module: Module, program: Program, directory: Path, say: cache.Say) -> None:
    """Builds one program; it appears under its name only when it is complete."""
    start = time.monotonic()
    say(f"{program.name}: building with Go {go.version} (from {program.package})")
    partial = directory / f".{program.name}.partial"
    tags = ["-tags", ",".join(module.tags)] if module.tags else []
    command = [str(go.path), "build", "-trimpath", "-ldflags", _LDFLAGS, *tags, "-o", str(partial), program.package]
    environment = cache.environment(
        CGO_ENABLED="0", GOTOOLCHAIN="local", GOFLAGS="-mod=readonly -buildvcs=false", GOWORK="off"
    )
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=module.path, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            code = _wait(process, program, start, say)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if code != 0:
            output.seek(0)
            raise ClusterError(_explain(module, program, command, output.read(), directory))
    partial.rename(directory / program.name)
    for component in program.components:
        _link(directory / component, program.name)
    size = (directory / program.name).stat().st_size / 1e6
    say(f"{program.name}: built in {time.monotonic() - start:.0f} s, {size:.0f} MB")


def _wait(process: subprocess.Popen[bytes], program: Program, start: float, say: cache.Say) -> int:
    while True:
        try:
            return process.wait(timeout=_HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{program.name}: still building, {time.monotonic() - start:.0f} s")


def _link(link: Path, target: str) -> None:
    """Makes the link appear whole, whoever else reads the directory."""
    partial = link.with_name(f".{link.name}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.rename(link)


def _explain(module: Module, program: Program, command: list[str], output: str, directory: Path) -> str:
    if _NO_SPACE in output:
        free = shutil.disk_usage(directory).free / 1e9
        return (
            f"no disk space left while building {program.name} ({free:.1f} GB free under {directory}); a first build "
            "needs about 9 GB in Go's caches (`go env GOCACHE GOMODCACHE`) and 0.3 GB here"
        )
    tail = "\n".join(output.strip().splitlines()[-15:])
    return f"building {program.name} failed: `{' '.join(command)}` in {module.path} said\n{tail}"
