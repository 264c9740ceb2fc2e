"""From a rendered pod to the process that plays it on this machine. Pure: the caller's environment is an argument.

What a kubelet would do with the trainer container is done the same way (command and args, `$(NAME)` expansion, env in
order); what only a cluster has is refused (`unresolvable`) or named as ignored (`ignored`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from disttrain import names
from disttrain.api.spec import JobSpec
from disttrain.core.model import Manifest
from disttrain_agent import contract

AGENT: Final = (sys.executable, "-P", "-m", "disttrain_agent", "--")
"""-P: the program's directory must not shadow the agent's modules (a `queue.py` beside `train.py`)."""
TRAINER: Final = (sys.executable, "-P", "-m", "disttrain_trainer.run")
"""What the default trainer image runs where the container has no `command`."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_INTRA_OP: Final = "TF_NUM_INTRAOP_THREADS"
_INTER_OP: Final = "TF_NUM_INTEROP_THREADS"


@dataclass(frozen=True)
class Launch:
    """A process to start: exactly what execve gets."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    directory: Path


@dataclass(frozen=True)
class Machine:
    """What the processes of one job share: where the manifest lies, this shell's environment, and the cores."""

    directory: Path
    environment: Mapping[str, str]
    cores: int
    processes: int

    def defaults(self) -> dict[str, str]:
        """Environment that is set unless the manifest or the shell sets it.

        Each TensorFlow process would otherwise start as many threads as there are cores; a handful of processes then
        spend their time switching. Two inter-op threads at least: one blocked operation must not block the others.
        """
        share = max(1, self.cores // max(1, self.processes))
        defaults = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
        if self.processes > 1:
            defaults |= {_INTRA_OP: str(share), _INTER_OP: str(max(2, share))}
        return defaults

    def inherited(self) -> dict[str, str]:
        """This shell's environment as a program's base: without another job's, and with this Python first in PATH.

        `python train.py` in a manifest means the image's Python; here that is the one with TensorFlow beside it.
        """
        base = {
            name: value
            for name, value in self.environment.items()
            if name != contract.ENV_TF_CONFIG and not name.startswith("DISTTRAIN_")
        }
        base["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), base.get("PATH", os.defpath)])
        return base


def launch(pod: Manifest, container: Mapping[str, Any], machine: Machine, overrides: Mapping[str, str]) -> Launch:
    """The process of one pod.

    `container` is the trainer container as the user's template has it (the rendered one runs the agent from a volume).
    `overrides` replace what the operator rendered for a cluster: addresses, directories, file descriptors.
    """
    declared = _declared(trainer_container(pod).get("env") or (), machine.environment)
    env = machine.inherited()
    for name, value in machine.defaults().items():
        env.setdefault(name, value)
    env |= declared
    env.pop(contract.ENV_TF_CONFIG, None)  # the rendered one names hosts of a cluster
    env |= overrides
    known = {**declared, **overrides}
    command = [expand(part, known) for part in container.get("command") or ()]
    args = [expand(part, known) for part in container.get("args") or ()]
    argv = (*AGENT, *command, *args) if command else (*AGENT, *TRAINER, *args)
    return Launch(argv, env, _directory(container, machine.directory))


def trainer_container(pod: Manifest) -> Mapping[str, Any]:
    """The container that trains, in a PodTemplateSpec or a pod."""
    container: Mapping[str, Any] = pod["spec"]["containers"][JobSpec.trainer_index(pod)]
    return container


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it in command, args and env: unknown names stay, `$$` is one dollar."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else env.get(name, match.group(0))

    return _REFERENCE.sub(value, text)


def _declared(entries: Iterable[Mapping[str, Any]], shell: Mapping[str, str]) -> dict[str, str]:
    """The container's own variables, in order: each may refer to those before it."""
    env: dict[str, str] = {}
    for entry in entries:
        name = entry["name"]
        if "valueFrom" not in entry:
            env[name] = expand(str(entry.get("value") or ""), env)
        elif name in shell:
            env[name] = shell[name]
    return env


def _directory(container: Mapping[str, Any], default: Path) -> Path:
    wanted = Path(container.get("workingDir") or "")
    return wanted if wanted.is_absolute() and wanted.is_dir() else default


def unresolvable(spec: JobSpec, shell: Mapping[str, str]) -> list[str]:
    """What this machine cannot give the programs, one line each, with the way out; empty if all can run."""
    lines: list[str] = []
    for path, template in templates(spec):
        index = spec.trainer_index(template)
        container = template["spec"]["containers"][index]
        at = f"{path}.spec.containers[{index}]"
        for number, entry in enumerate(container.get("env") or ()):
            source = entry.get("valueFrom")
            if source and entry["name"] not in shell and not _optional(source):
                lines.append(
                    f"{at}.env[{number}].valueFrom: only a cluster can resolve {entry['name']}; export "
                    f"{entry['name']} in this shell, and its value is used, or give it a `value`"
                )
        for number, source in enumerate(container.get("envFrom") or ()):
            if not _optional(source):
                lines.append(
                    f"{at}.envFrom[{number}]: only a cluster can resolve {_named(source)}; list the variables under "
                    "`env` or mark the source `optional: true`"
                )
    return lines


def _optional(source: Mapping[str, Any]) -> bool:
    return any(isinstance(part, Mapping) and part.get("optional") is True for part in source.values())


def _named(source: Mapping[str, Any]) -> str:
    """`secret db` for an envFrom entry."""
    for kind in ("configMapRef", "secretRef"):
        if kind in source:
            return f"{kind.removesuffix('Ref')} {source[kind].get('name', '')}"
    return "the source"


def templates(spec: JobSpec) -> list[tuple[str, dict[str, Any]]]:
    """Every pod template in use with its field path: the shared one once, and those of roles that bring their own."""
    found: list[tuple[str, dict[str, Any]]] = []
    shared = False
    for role in spec.roles_in_use():
        role_spec = spec.roles.get(role)
        if role_spec is not None and role_spec.template is not None:
            found.append((f"spec.roles.{role}.template", spec.pod_template(role)))
        elif not shared:
            shared = True
            found.append(("spec.template", spec.pod_template(role)))
    return found


def ignored(spec: JobSpec) -> list[str]:
    """Fields the manifest sets that mean nothing without a cluster, for one line at the start."""
    found: dict[str, None] = {}
    for role in spec.roles_in_use():
        template = spec.pod_template(role)
        pod = template["spec"]
        trainer = trainer_container(template)
        found |= dict.fromkeys(key for key in ("image", "resources") if trainer.get(key))
        found |= dict.fromkeys(key for key in ("nodeSelector", "tolerations", "affinity") if pod.get(key))
        found |= dict.fromkeys(["volumes"] if pod.get("volumes") or trainer.get("volumeMounts") else [])
        found |= dict.fromkeys(["initContainers"] if pod.get("initContainers") else [])
        found |= dict.fromkeys(["sidecar containers"] if len(pod["containers"]) > 1 else [])
    found |= dict.fromkeys(["storage (the job's directory takes its place)"] if spec.storage is not None else [])
    found |= dict.fromkeys(["suspend"] if spec.suspend else [])
    found |= dict.fromkeys(["managedBy"] if spec.managed_by != names.OPERATOR else [])
    found |= dict.fromkeys(["cleanPodPolicy"] if spec.clean_pod_policy == "None" else [])
    return list(found)


def needs_tensorflow(spec: JobSpec) -> bool:
    """Whether a role runs the default trainer: its container has no command."""
    return any(not trainer_container(template).get("command") for _, template in templates(spec))
