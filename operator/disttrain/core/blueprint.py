"""The part of a pod that is the same for every pod of its role: the user's template made ours.

| of the template                              | becomes                                                              |
|----------------------------------------------|----------------------------------------------------------------------|
| metadata                                     | labels and annotations are kept, ours added                          |
| restartPolicy                                | Never: the operator restarts, the kubelet would be a second counter  |
| subdomain                                    | the job's name: its Service gives every pod a DNS name               |
| terminationGracePeriodSeconds, if unset      | 120: time to save a checkpoint                                       |
| automountServiceAccountToken, if unset       | false: training needs no API server                                  |
| enableServiceLinks, if unset                 | false: hundreds of variables of other Services                       |
| trainer: image, if unset                     | the operator's default as it was when the job began (status.images)  |
| trainer: env                                 | ours first, so that the user's values may refer to them by `$(NAME)` |
| trainer: ports                               | tf and agent are added where neither name nor number is there        |
| trainer: terminationMessagePolicy, if unset  | FallbackToLogsOnError: without an agent the log's end says why       |
| trainer: volumeMounts                        | the storage at storage.mountPath, the agent where it is injected     |
| trainer: command, if set                     | put behind the agent, which an init container brings; args stay      |
| volumes, initContainers                      | the storage claim, the agent where it is injected                    |

What would collide with ours (names, ports, variables, mount paths) is refused by `disttrain.api.validate`.

Without `command` the image's own entrypoint runs: our trainer image's is the agent; a foreign image runs without one.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any, Final

from disttrain import names
from disttrain.api.spec import JobSpec, Storage
from disttrain.core.model import Job, Settings

_AGENT_FILE: Final = posixpath.join(names.AGENT_MOUNT_PATH, "agent.pyz")
_AGENT_VOLUME_SIZE: Final = "16Mi"  # the archive has well under one


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A role's pod but for what differs from pod to pod: name, hostname and the trainer's environment."""

    labels: dict[str, str]
    annotations: dict[str, str]
    pod: dict[str, Any]
    """A PodSpec; its trainer container's `env` holds the user's variables only."""
    trainer: int
    grace_seconds: int


def blueprint(job: Job, spec: JobSpec, role: names.Role, settings: Settings) -> Blueprint:
    """The template of a role as its pods will have it."""
    template = spec.pod_template(role)
    metadata = template.get("metadata") or {}
    pod: dict[str, Any] = template["spec"]
    index = spec.trainer_index(template)
    trainer = dict(pod["containers"][index])
    images = job.status.images
    _set_if_unset(trainer, "image", (images and images.trainer) or settings.trainer_image)
    _set_if_unset(trainer, "terminationMessagePolicy", "FallbackToLogsOnError")
    trainer["env"] = trainer.get("env") or []
    trainer["ports"] = [*(trainer.get("ports") or []), *_missing_ports(pod)]
    if spec.storage is not None:
        _mount_storage(pod, trainer, spec.storage)
    if trainer.get("command"):
        _inject_agent(pod, trainer, (images and images.agent) or settings.agent_image)
    pod["containers"][index] = trainer
    pod["restartPolicy"] = "Never"
    pod["subdomain"] = job.name
    _set_if_unset(pod, "terminationGracePeriodSeconds", names.DEFAULT_GRACE_SECONDS)
    _set_if_unset(pod, "automountServiceAccountToken", False)
    _set_if_unset(pod, "enableServiceLinks", False)
    return Blueprint(
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        pod=pod,
        trainer=index,
        grace_seconds=pod["terminationGracePeriodSeconds"],
    )


def run_directory(job: Job, storage: Storage) -> str:
    """The job's own directory in its storage. The uid in it keeps a job of the same name from finding an old "done"."""
    return posixpath.join(storage.mount_path, storage.sub_path, f"{job.name}-{job.uid[:8]}")


def _set_if_unset(data: dict[str, Any], key: str, value: object) -> None:
    if data.get(key) is None:
        data[key] = value


def _missing_ports(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Our two ports, unless declared: names and numbers are taken pod-wide, since containers share one network."""
    declared = [port for container in pod["containers"] for port in container.get("ports") or []]
    taken = {port.get("name") for port in declared} | {port.get("containerPort") for port in declared}
    ours = ((names.PORT_NAME_TF, names.TF_PORT), (names.PORT_NAME_AGENT, names.AGENT_PORT))
    return [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in ours
        if name not in taken and port not in taken
    ]


def _mount_storage(pod: dict[str, Any], trainer: dict[str, Any], storage: Storage) -> None:
    claim = {"name": names.STORAGE_VOLUME, "persistentVolumeClaim": {"claimName": storage.claim_name}}
    pod["volumes"] = [*(pod.get("volumes") or []), claim]
    mount = {"name": names.STORAGE_VOLUME, "mountPath": storage.mount_path}
    trainer["volumeMounts"] = [*(trainer.get("volumeMounts") or []), mount]


def _inject_agent(pod: dict[str, Any], trainer: dict[str, Any], image: str) -> None:
    """Puts the agent before the user's command: one file, brought by an init container through an emptyDir."""
    mount = {"name": names.AGENT_VOLUME, "mountPath": names.AGENT_MOUNT_PATH}
    pod["volumes"] = [
        *(pod.get("volumes") or []),
        {"name": names.AGENT_VOLUME, "emptyDir": {"sizeLimit": _AGENT_VOLUME_SIZE}},
    ]
    install = {
        "name": names.AGENT_INIT_CONTAINER,
        "image": image,
        "command": ["disttrain-agent", "install", _AGENT_FILE],
        # Requests equal to limits leave a pod of the class Guaranteed what it is; a quota asks for both.
        "resources": {amount: {"cpu": "100m", "memory": "64Mi"} for amount in ("requests", "limits")},
        "securityContext": _restricted(pod),
        "volumeMounts": [mount],
    }
    pod["initContainers"] = [install, *(pod.get("initContainers") or [])]
    trainer["volumeMounts"] = [*(trainer.get("volumeMounts") or []), {**mount, "readOnly": True}]
    trainer["command"] = ["python3", _AGENT_FILE, "--", *trainer["command"]]


def _restricted(pod: dict[str, Any]) -> dict[str, Any]:
    """The `restricted` Pod Security Standard. The user is the pod's or the image's, unless the pod asks for root."""
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if (pod.get("securityContext") or {}).get("runAsUser") == 0:
        context["runAsUser"] = 65_532  # "nonroot" of the distroless images
    return context
