"""What the images are made of: this machine's C library, busybox and Python, and packages of the lock file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.cluster import cache
from tests.cluster.errors import ClusterError

PYTHON = "/opt/python"
SITE_PACKAGES = f"{PYTHON}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
USER = 65532
_CHECKOUT = Path(__file__).resolve().parents[3]
# Loaded by name at run time, so that no file says that it needs them: the resolver's, and the C library's stubs for
# programs linked before it took them in (TensorFlow's).
_ALSO = ("libnss_dns.so.2", "libnss_files.so.2", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
_STANDARD_LIBRARY_SKIP = frozenset(
    {
        "test",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "site-packages",
        "dist-packages",
        "__pycache__",
    }
)


def busybox(root: Path) -> None:
    """A shell, its commands, a C library and the files that say who users are."""
    program = shutil.which("busybox")
    if program is None:
        raise ClusterError("busybox is missing (Debian package busybox)")
    (root / "bin").mkdir(parents=True)
    shutil.copy2(program, root / "bin" / "busybox")
    for name in _output([program, "--list"]).split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    for directory in ("etc", "root", "proc", "sys", "dev", "var/run", "www", "usr/local/bin", "usr/bin"):
        (root / directory).mkdir(parents=True)
    for directory in ("tmp", "var/tmp"):
        (root / directory).mkdir()
        (root / directory).chmod(0o1777)
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/bin/sh\ndisttrain:x:{USER}:{USER}::/tmp:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/:/bin/false\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\ndisttrain:x:{USER}:\nnogroup:x:65534:\n")
    libraries(root, [Path(program)], _ALSO)


def python(root: Path) -> None:
    """The interpreter that runs us, with its standard library, compiled, below /opt/python."""
    prefix = root / PYTHON.lstrip("/")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    (prefix / "bin").mkdir(parents=True)
    shutil.copy2(executable, prefix / "bin" / version)
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to(version)
    library = Path(sysconfig.get_path("stdlib"))

    def skipped(directory: str, names: list[str]) -> list[str]:
        big = [name for name in names if name.startswith("config-") or name.endswith(".a")]
        return [
            *big,
            *(_STANDARD_LIBRARY_SKIP & set(names) if directory == str(library) else {"__pycache__"} & set(names)),
        ]

    shutil.copytree(library, prefix / "lib" / version, ignore=skipped, symlinks=True)
    (root / SITE_PACKAGES.lstrip("/")).mkdir()
    shared = Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("INSTSONAME")))
    if shared.suffix != ".a" and shared.exists():
        shutil.copy2(shared, prefix / "lib" / shared.name)
    modules = (prefix / "lib" / version).rglob("*.so")
    libraries(root, [executable, *modules], ("libstdc++.so.6", "libgcc_s.so.1", *_ALSO))
    compile_all([prefix / "lib" / version])


def libraries(root: Path, programs: Iterable[Path], names: Sequence[str] = ()) -> None:
    """Copies the system's shared libraries that the programs need, and those named, to the same paths below root."""
    found = {word for word in _output(["ldd", *map(str, programs)]).split() if word.startswith(("/lib", "/usr/lib"))}
    known = {
        line.split()[0]: line.split()[-1] for line in _output(["ldconfig", "-p"]).splitlines()[1:] if "x86-64" in line
    }
    for path in sorted(found | {known[name] for name in names if name in known}):
        source = Path(path.rstrip(":"))
        target = root / str(source).lstrip("/")
        if source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source.resolve(), target)


def packages(root: Path, extra: str) -> None:
    """Installs an extra's packages as the lock file pins them (hashes checked), compiled, into site-packages."""
    uv = find_uv()
    requirements = root.parent / f"{root.name}.requirements.txt"
    requirements.write_text(locked(extra))
    target = root / SITE_PACKAGES.lstrip("/")
    target.mkdir(parents=True)
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", sys.executable]
    _check([*command, "--target", str(target), "--requirements", str(requirements)])
    for unused in ("tensorflow/include", "clang", "bin"):  # headers, and what only a build of TensorFlow needs
        shutil.rmtree(target / unused, ignore_errors=True)
    compile_all([target])


def locked(extra: str) -> str:
    """The requirements of an extra, with hashes, as uv.lock has them."""
    command = [find_uv(), "export", "--quiet", "--locked", "--no-dev", "--no-emit-project", "--extra", extra]
    return _output([*command, "--no-header", "--directory", str(_CHECKOUT)])


def compile_all(directories: Sequence[Path]) -> None:
    """Writes .pyc files that are valid whatever the modification times are."""
    mode = ["--invalidation-mode", "unchecked-hash"]
    # Exit code 1 is for files of other Python versions, which packages ship as data: they stay uncompiled.
    subprocess.run(
        [sys.executable, "-m", "compileall", "-qq", "-j", "0", *mode, *map(str, directories)],
        check=False,
        stdout=subprocess.DEVNULL,
    )


def find_uv() -> str:
    """The command uv: on PATH, or where `make` installs it."""
    own = _CHECKOUT / ".uv" / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.exists() else None)
    if found is None:
        raise ClusterError("uv is not on PATH: the images are made of what uv.lock pins; `make env` installs it")
    return found


def _output(command: Sequence[str]) -> str:
    return _check(command).stdout


def _check(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=cache.environment(LC_ALL="C"))
    if result.returncode != 0:
        tail = "\n".join(result.stderr.strip().splitlines()[-5:])
        raise ClusterError(f"`{' '.join(command)[:300]}` failed: {tail}")
    return result
