"""The images of the test cluster, layer by layer: those below change seldom and are made once, our code is on top."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster import cache
from tests.cluster.images import names, rootfs
from tests.cluster.images.oci import BlobStore, Image, Layer, Settings, Tree

CHECKOUT = Path(__file__).resolve().parents[3]
_KEY_LENGTH = 16
_TRAINER_ENTRYPOINT = ("disttrain-agent", "--", "disttrain-run")
_COMPILED = frozenset({"__pycache__"})
_PATH = "PATH=/usr/local/bin:/opt/python/bin:/usr/bin:/bin"
_PYTHON_ENVIRONMENT = (_PATH, f"LD_LIBRARY_PATH={rootfs.PYTHON}/lib", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")


@dataclass(frozen=True)
class Images:
    """`base` are all images without our code, for the golden store; `code` are the same layers with it on top."""

    base: tuple[Image, ...]
    code: tuple[Image, ...]


class Builder:
    """Makes layers, once for each key; what they are made of is thrown away when they are packed."""

    def __init__(self, directory: Path, programs: Mapping[str, Path], say: cache.Say) -> None:
        self._records = directory / "layers"
        self._records.mkdir(parents=True, exist_ok=True)
        self.blobs = BlobStore(directory / "blobs")
        self._programs = programs
        self._say = say

    def base(self) -> tuple[Image, ...]:
        """Every image without our code. Some minutes the first time: TensorFlow is 1.2 GB."""
        system, trainer, operator = self._system(), self._packages("trainer"), self._packages("operator")
        return (
            self._program(names.PAUSE, "pause", "/pause"),
            self._program(names.COREDNS, "coredns", "/coredns"),
            Image(names.BUSYBOX, (system[0],), Settings(command=["/bin/sh"])),
            Image("disttrain.test/operator-base:test", (*system, operator), Settings()),
            Image("disttrain.test/trainer-base:test", (*system, trainer), Settings()),
        )

    def images(self) -> Images:
        """All images; seconds if only our code changed."""
        base = self.base()
        by_name = {image.name: image.layers for image in base}
        operator, trainer = by_name["disttrain.test/operator-base:test"], by_name["disttrain.test/trainer-base:test"]
        code = (
            Image(
                names.OPERATOR,
                (*operator, self._code("operator")),
                _settings("operator", command=["disttrain-operator"]),
            ),
            Image(
                names.TRAINER, (*trainer, self._code("trainer")), _settings("trainer", entrypoint=_TRAINER_ENTRYPOINT)
            ),
            Image(names.AGENT, (*trainer[:2], self._code("agent")), _settings("agent", entrypoint=["disttrain-agent"])),
        )
        return Images(base, code)

    def _program(self, name: str, program: str, path: str) -> Image:
        binary = self._programs[program].resolve()
        key = _digest(binary.parent.name, program)

        def make(root: Path) -> None:
            shutil.copy2(binary, root / path.lstrip("/"))

        return Image(name, (self._layer(program, key, make),), Settings(entrypoint=[path]))

    def _system(self) -> tuple[Layer, Layer]:
        key = _digest(sys.version, _source(rootfs.__file__))
        return self._layer("busybox", key, rootfs.busybox), self._layer("python", key, rootfs.python)

    def _packages(self, extra: str) -> Layer:
        key = _digest(sys.version, rootfs.locked(extra), _source(rootfs.__file__))
        return self._layer(f"{extra}-packages", key, lambda root: rootfs.packages(root, extra))

    def _layer(self, name: str, key: str, make: Callable[[Path], None]) -> Layer:
        record = self._records / f"{name}-{key}.json"
        if record.exists():
            return Layer(**json.loads(record.read_text()))
        start = time.monotonic()
        self._say(f"image layer {name}: making it")
        with tempfile.TemporaryDirectory(dir=self._records, prefix=f".{name}-") as scratch:
            root = Path(scratch, "root")
            root.mkdir()
            make(root)
            self._forget(name)
            layer = self.blobs.add([Tree(root)])
        record.write_text(json.dumps(asdict(layer)))
        self._say(f"image layer {name}: {layer.size / 1e6:.0f} MB in {time.monotonic() - start:.0f} s")
        return layer

    def _forget(self, name: str) -> None:
        """Removes what was made under other keys."""
        for old in self._records.glob(f"{name}-{'[0-9a-f]' * _KEY_LENGTH}.json"):
            self.blobs.path(Layer(**json.loads(old.read_text()))).unlink(missing_ok=True)
            old.unlink()

    def _code(self, image: str) -> Layer:
        """Our own files, compiled."""
        sources = [CHECKOUT / "pyproject.toml", *_sources(image)]
        key = _digest(*(f"{file.relative_to(CHECKOUT)}\0{file.read_text()}" for file in sources))
        return self._layer(f"{image}-code", key, lambda root: lay_code(root, image))


_CODE = {
    "operator": ("operator/disttrain", "trainer_image/disttrain_agent"),
    "trainer": ("trainer_image/disttrain_agent", "trainer_image/disttrain_trainer"),
    "agent": ("trainer_image/disttrain_agent",),
}
_EXAMPLES = "examples"
WORKSPACE = "/workspace"


def lay_code(root: Path, image: str) -> None:
    """Lays our code below `root` as an installation would: packages, console scripts, version; and the examples."""
    site = root / rootfs.SITE_PACKAGES.lstrip("/")
    site.mkdir(parents=True)
    for package in _CODE[image]:
        source = CHECKOUT / package
        shutil.copytree(source, site / source.name, ignore=shutil.ignore_patterns(*_COMPILED))
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    installed = {Path(package).name for package in _CODE[image]}
    scripts = root / "usr/local/bin"
    scripts.mkdir(parents=True)
    for script, target in project["scripts"].items():
        module, function = target.split(":")
        if module.split(".")[0] in installed:
            _write_script(scripts / script, module, function)
    metadata = site / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    rootfs.compile_all([site])
    workspace = root / WORKSPACE.lstrip("/")
    workspace.mkdir()
    if image == "trainer":
        shutil.copytree(CHECKOUT / _EXAMPLES, workspace, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_COMPILED))


def _sources(image: str) -> list[Path]:
    """Every file of the code layer."""
    directories = [*_CODE[image], *([_EXAMPLES] if image == "trainer" else [])]
    found = (path for directory in directories for path in (CHECKOUT / directory).rglob("*"))
    return sorted(path for path in found if path.is_file() and not _COMPILED & set(path.parts))


def _write_script(path: Path, module: str, function: str) -> None:
    path.write_text(
        f"#!{rootfs.PYTHON}/bin/python3\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    )
    path.chmod(0o755)


def _settings(title: str, *, entrypoint: Sequence[str] = (), command: Sequence[str] = ()) -> Settings:
    return Settings(
        entrypoint=entrypoint,
        command=command,
        user=f"{rootfs.USER}:{rootfs.USER}",
        directory=WORKSPACE,
        environment=_PYTHON_ENVIRONMENT,
        labels={"org.opencontainers.image.title": f"disttrain-{title}"},
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_KEY_LENGTH]


def _source(file: str) -> str:
    """What a module does: not its comments and line breaks."""
    return ast.dump(ast.parse(Path(file).read_text()))
