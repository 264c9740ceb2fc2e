"""The golden store: a containerd directory with the images in it, that every node starts from by hard links.

Importing TensorFlow's image takes a minute and 2.6 GB; linking what was imported takes neither. That is safe because
containerd never writes to a blob or to a layer again once it is complete; only its databases are copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import cache, processes
from tests.cluster.errors import ClusterError
from tests.cluster.images.oci import BlobStore, Image, write_archive

NAMESPACE = "k8s.io"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_MIN_FREE_BYTES = 6_000_000_000
_COMPONENT = "golden-containerd"


def ensure(
    directory: Path, images: Sequence[Image], blobs: BlobStore, programs: Mapping[str, Path], say: cache.Say
) -> Path:
    """The golden store with exactly these images, below `directory`; made if it is not there. Raises ClusterError."""
    content = repr([(image.name, image.layers, image.settings) for image in images])
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    golden = directory / f"golden-{key}"
    if golden.exists():
        return golden
    free = shutil.disk_usage(directory).free
    if free < _MIN_FREE_BYTES:
        raise ClusterError(
            f"no disk space for the images: {free / 1e9:.1f} GB free under {directory}, "
            f"{_MIN_FREE_BYTES / 1e9:.0f} GB needed; free some or set XDG_CACHE_HOME"
        )
    start = time.monotonic()
    for old in directory.glob("golden-*"):
        shutil.rmtree(old)
    partial = directory / "golden-partial"
    size = sum({layer.digest: layer.size for image in images for layer in image.layers}.values())
    say(f"golden store: importing {len(images)} images, {size / 1e9:.1f} GB")
    with _containerd(directory, partial, programs) as address:
        load(images, blobs, (), [programs["ctr"], "--address", address])
    partial.rename(golden)
    say(f"golden store: made in {time.monotonic() - start:.0f} s")
    return golden


def clone(golden: Path, target: Path) -> None:
    """Makes `target` a containerd directory with the golden store's content, in a second."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-al", golden, target], check=True)
    for database in golden.rglob("*.db"):
        copy = target / database.relative_to(golden)
        copy.unlink()
        shutil.copy2(database, copy)


def load(images: Sequence[Image], blobs: BlobStore, present: Sequence[Image], ctr: Sequence[str | Path]) -> None:
    """Imports images into a running containerd by its client; layers of `present` images are not sent again."""
    command = [*map(str, ctr), "--namespace", NAMESPACE, "images", "import", "--snapshotter", "overlayfs", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as archive:  # the client's own words say more
        write_archive(archive, images, blobs, [layer for image in present for layer in image.layers])
    output = process.stdout.read().decode(errors="replace")
    process.stdout.close()
    if process.wait() != 0:
        raise ClusterError(f"`{' '.join(command)}` failed: {output.strip()[-500:]}")


@contextmanager
def _containerd(directory: Path, root: Path, programs: Mapping[str, Path]) -> Iterator[str]:
    """A containerd that only stores; its address."""
    run = directory / "golden-run"
    processes.kill(processes.living(run))
    for left in (root, run):
        shutil.rmtree(left, ignore_errors=True)
    run.mkdir()
    config = run / "config.toml"
    address = run / "s"
    unneeded = ("cri.v1.runtime", "cri.v1.images", "grpc.v1.cri", "nri.v1.nri")
    disabled = ", ".join(f'"io.containerd.{plugin}"' for plugin in unneeded)
    config.write_text(
        f'version = 3\nroot = "{root}"\nstate = "{run}/state"\ndisabled_plugins = [{disabled}]\n'
        f'[grpc]\n  address = "{address}"\n'
    )
    process = processes.spawn(run, _COMPONENT, [programs["containerd"], "--config", config])
    try:
        _await(run, process, [str(programs["ctr"]), "--address", str(address), "version"])
        yield str(address)
    finally:
        processes.kill(processes.living(run))
        shutil.rmtree(run, ignore_errors=True)


def _await(run: Path, process: processes.Process, probe: Sequence[str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        if not processes.alive(process) or time.monotonic() > deadline:
            raise ClusterError(f"containerd did not start; its last words:\n{processes.log_tail(run, _COMPONENT)}")
        time.sleep(_POLL_SECONDS)
