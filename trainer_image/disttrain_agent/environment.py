"""What the agent is told by its environment, checked, and what it tells its child. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Final, Mapping, Optional, Sequence, Tuple

from disttrain_agent import contract
from disttrain_agent.cluster import MIRRORED, MULTI_WORKER_MIRRORED, PARAMETER_SERVER, Cluster, tf_config
from disttrain_agent.status import Identity

DEFAULT_GRACE_SECONDS: Final = 120.0
MAX_SECONDS: Final = 7 * 86_400.0
MAX_UID_BYTES: Final = 64
MAX_JOB_BYTES: Final = 253  # the longest name Kubernetes has (RFC 1123 subdomain)
EVALUATOR: Final = "evaluator"
TF_CONFIG_MAX_BYTES: Final = contract.MAX_ENV_STRING_BYTES - len(contract.ENV_TF_CONFIG) - 2  # "=" and the final NUL

INJECT_DIRECTORY: Final = str(Path(__file__).absolute().parent / "inject")
"""Holds the `sitecustomize.py` that composes TF_CONFIG inside Python processes. Importable from a zip file too."""


class UsageError(Exception):
    """The environment or the arguments are wrong; a restart cannot help. The text names what, and what is wrong."""


@dataclass(frozen=True)
class Settings:
    """One agent's task. Times in seconds; `port` 0 lets the system choose (tests)."""

    identity: Identity
    cluster: Cluster
    port: int
    grace: float
    gate_seconds: float
    termination_log: str
    termination_log_is_ours: bool
    """The path was given to us, so the file may be created; the default one is the kubelet's to make."""
    parent_fd: Optional[int]

    @property
    def on_loopback(self) -> bool:
        """All addresses are this machine's own: nobody else has a reason to reach the agent."""
        groups = (*self.cluster.addresses.values(), *self.cluster.agents.values())
        addresses = [address for group in groups for address in group]
        return bool(addresses) and all(_is_loopback(address) for address in addresses)

    def peers(self) -> Sequence[Tuple[str, int]]:
        """Whom the gate waits for: the other members of TensorFlow's cluster; nobody for Mirrored and the evaluator.

        Ring order from this task on, so that the members of a big job do not all ask the same peer first.
        """
        me = (self.identity.role, self.identity.index)
        members = self.cluster.members()
        if me not in members:
            return ()
        place = members.index(me)
        return (*members[place + 1 :], *members[:place])

    @property
    def gang_attempt(self) -> Optional[int]:
        """The attempt all peers must be of; None where roles restart one by one (ParameterServer)."""
        return self.identity.attempt if self.cluster.strategy == MULTI_WORKER_MIRRORED else None

    @property
    def holds(self) -> bool:
        """Whether a stop waits for the leader's save: ps and workers hold the variables the chief is saving."""
        return self.cluster.strategy == PARAMETER_SERVER and self.identity.role in ("ps", "worker")


def read(environ: Mapping[str, str]) -> Settings:
    """Raises UsageError naming the variable and what is wrong with it."""
    try:
        cluster = Cluster.from_json(_required(environ, contract.ENV_CLUSTER))
    except ValueError as error:
        raise UsageError(f"{contract.ENV_CLUSTER}: {error}") from error
    strategy = environ.get(contract.ENV_STRATEGY, cluster.strategy)
    if strategy != cluster.strategy:
        raise UsageError(
            f"{contract.ENV_STRATEGY}: {strategy!r} contradicts {cluster.strategy!r} in {contract.ENV_CLUSTER}"
        )
    role, index = _task(environ, cluster)
    return Settings(
        identity=Identity(
            job=_bounded(contract.ENV_CLUSTER, cluster.job, MAX_JOB_BYTES),
            uid=_bounded(contract.ENV_JOB_UID, _required(environ, contract.ENV_JOB_UID), MAX_UID_BYTES),
            role=role,
            index=index,
            attempt=_integer(environ, contract.ENV_ATTEMPT, 1, 2**31 - 1),
        ),
        cluster=cluster,
        port=_port(environ, cluster, role, index),
        grace=_seconds(environ, contract.ENV_GRACE_SECONDS, DEFAULT_GRACE_SECONDS),
        gate_seconds=_seconds(environ, contract.ENV_GATE_SECONDS, contract.GATE_SECONDS),
        termination_log=termination_log(environ)[0],
        termination_log_is_ours=termination_log(environ)[1],
        parent_fd=_descriptor(environ),
    )


def termination_log(environ: Mapping[str, str]) -> Tuple[str, bool]:
    """Where the last word goes, and whether the file may be created."""
    given = environ.get(contract.ENV_TERMINATION_LOG)
    return (given, True) if given else (contract.TERMINATION_LOG, False)


def for_child(settings: Settings, environ: Mapping[str, str], report_fd: int) -> Dict[str, str]:
    """The training process' environment: ours, with TF_CONFIG as the job has it, whatever was there before.

    A TF_CONFIG too long for one environment string (about 3,000 workers) is left out, and Python processes compose it
    when they start. Other programs cannot get it, nor does a Python that ignores PYTHONPATH (-I, -E) or skips `site`
    (-S).
    """
    ours = (contract.ENV_PARENT_FD, contract.ENV_TF_CONFIG)
    env = {name: value for name, value in environ.items() if name not in ours}
    env[contract.ENV_REPORT_FD] = str(report_fd)
    config = tf_config(settings.cluster, settings.identity.role, settings.identity.index)
    if config is None:
        return env
    if len(config.encode()) <= TF_CONFIG_MAX_BYTES:
        env[contract.ENV_TF_CONFIG] = config
    else:
        path = env.get("PYTHONPATH")
        env["PYTHONPATH"] = os.pathsep.join([INJECT_DIRECTORY, path]) if path else INJECT_DIRECTORY
    return env


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if value is None:
        raise UsageError(f"{name} is not set; the operator and `disttrain run` set it")
    if not value:
        raise UsageError(f"{name} is empty")
    return value


def _bounded(name: str, value: object, limit: int) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.encode("utf-8", "replace")) <= limit:
        raise UsageError(f"{name}: must hold printable text of 1 to {limit} bytes, not {str(value)[:80]!r}")
    return value


def _integer(environ: Mapping[str, str], name: str, low: int, high: int) -> int:
    value = _required(environ, name)
    try:
        number = int(value) if value.isascii() and len(value) < 20 else None
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise UsageError(f"{name}: must be a whole number between {low} and {high}, not {value[:80]!r}")
    return number


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    value = environ.get(name)
    if not value:
        return float(default)
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SECONDS:  # false for NaN too
        raise UsageError(f"{name}: must be seconds between 0 and {MAX_SECONDS:.0f}, not {value[:80]!r}")
    return seconds


def _task(environ: Mapping[str, str], cluster: Cluster) -> Tuple[str, int]:
    """Role and index, checked against the cluster: TensorFlow would hang on a task that is not in the map."""
    role = _required(environ, contract.ENV_ROLE)
    roles = {member_role for member_role, _ in cluster.members()} | {EVALUATOR}
    if cluster.strategy == MIRRORED:
        roles = {"worker", EVALUATOR}
    if role not in roles:
        known = ", ".join(sorted(roles))
        raise UsageError(f"{contract.ENV_ROLE}: {role[:80]!r} is not a role of this {cluster.strategy} job ({known})")
    replicas = max(1, cluster.replicas.get(role, 1))
    return role, _integer(environ, contract.ENV_INDEX, 0, replicas - 1)


def _port(environ: Mapping[str, str], cluster: Cluster, role: str, index: int) -> int:
    if environ.get(contract.ENV_AGENT_PORT):
        return _integer(environ, contract.ENV_AGENT_PORT, 0, 65_535)
    if role not in cluster.agents:
        return cluster.agent_port
    try:
        return int(cluster.agents[role][index].rpartition(":")[2])
    except (IndexError, ValueError) as error:
        raise UsageError(f"{contract.ENV_CLUSTER}: agents has no host:port for {role} {index}") from error


def _descriptor(environ: Mapping[str, str]) -> Optional[int]:
    if not environ.get(contract.ENV_PARENT_FD):
        return None
    descriptor = _integer(environ, contract.ENV_PARENT_FD, 0, 2**31 - 1)
    try:
        os.fstat(descriptor)
    except OSError as error:
        raise UsageError(f"{contract.ENV_PARENT_FD}: file descriptor {descriptor} is not open") from error
    return descriptor


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0]
    return host == "localhost" or host.startswith("127.") or host.strip("[]") == "::1"
