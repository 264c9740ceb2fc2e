"""What the environment says about this process: its role in which job, and where its checkpoints go.

Pure; imports no TensorFlow. Without any environment this is one process on one machine that trains for itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from disttrain_agent import contract
from disttrain_agent.cluster import (
    CLUSTER_ROLES,
    MIRRORED,
    MULTI_WORKER_MIRRORED,
    PARAMETER_SERVER,
    Cluster,
    tf_config,
)
from disttrain_trainer.errors import UsageError

CHIEF: Final = "chief"
WORKER: Final = "worker"
PS: Final = "ps"
EVALUATOR: Final = "evaluator"

# Without a policy the cost of saving must stay small whatever a step costs, so the default is a time.
DEFAULT_EVERY_SECONDS: Final = 60.0
DEFAULT_KEEP: Final = 3


@dataclass(frozen=True)
class CheckpointPolicy:
    """When to save and how many to keep (`spec.checkpoint`).

    `every_steps` and `every_seconds` each make a save due on their own. `restore_from` is the run directory (or the
    checkpoint directory) of another job, used only while this job has no checkpoint of its own.
    """

    every_steps: int | None = None
    every_seconds: float | None = DEFAULT_EVERY_SECONDS
    keep: int = DEFAULT_KEEP
    restore_from: Path | None = None

    def due(self, step: int, saved_step: int, seconds_since_save: float) -> bool:
        """True if it is time to save at `step`: a multiple of `every_steps` was reached since the last save, or the
        time is up."""
        if step <= saved_step:
            return False
        if self.every_steps is not None and step // self.every_steps > saved_step // self.every_steps:
            return True
        return self.every_seconds is not None and seconds_since_save >= self.every_seconds


@dataclass(frozen=True)
class JobEnvironment:
    """This process's place in its job.

    `strategy` is None where no job is: the program runs alone, under TensorFlow's default strategy. `tf_config` is the
    TF_CONFIG that TensorFlow must see, None where it must see none.
    """

    strategy: str | None = None
    role: str = WORKER
    index: int = 0
    leader: bool = True
    workers: int = 1
    tf_config: str | None = None
    run_dir: Path | None = None
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    cpu_devices: int = 1

    @property
    def serves(self) -> bool:
        """True for the tasks of a ParameterServer cluster that only serve the chief and never run the program."""
        return self.strategy == PARAMETER_SERVER and self.role in (WORKER, PS)

    @property
    def evaluates(self) -> bool:
        """True for the evaluator, which is in no cluster and trains nothing."""
        return self.role == EVALUATOR

    @property
    def in_cluster(self) -> bool:
        """True if other processes train with this one, so that how it leaves matters to them."""
        return self.tf_config is not None and not self.evaluates

    @staticmethod
    def from_environment(env: Mapping[str, str]) -> JobEnvironment:
        """Read `DISTTRAIN_*` (and TF_CONFIG where only that is there). Raises UsageError naming the variable."""
        run_dir = env.get(contract.ENV_RUN_DIR)
        common: dict[str, Any] = {
            "run_dir": Path(run_dir) if run_dir else None,
            "checkpoint": _checkpoint_policy(env.get(contract.ENV_CHECKPOINT)),
            "cpu_devices": _positive(contract.ENV_CPU_DEVICES, env.get(contract.ENV_CPU_DEVICES) or "1"),
        }
        strategy = env.get(contract.ENV_STRATEGY) or None
        if strategy is not None and strategy not in CLUSTER_ROLES:
            known = ", ".join(CLUSTER_ROLES)
            raise UsageError(f"{contract.ENV_STRATEGY}: unknown strategy {strategy!r}; one of {known}")
        if env.get(contract.ENV_CLUSTER):
            return JobEnvironment(**common, **_from_cluster(env, env[contract.ENV_CLUSTER]))
        if env.get(contract.ENV_TF_CONFIG):
            return JobEnvironment(**common, **_from_tf_config(strategy, env[contract.ENV_TF_CONFIG]))
        if strategy in (MULTI_WORKER_MIRRORED, PARAMETER_SERVER):
            raise UsageError(
                f"{contract.ENV_STRATEGY} is {strategy}, but neither {contract.ENV_CLUSTER} nor TF_CONFIG says where "
                "the other processes are; start the program through a DistTrainJob or `disttrain run`"
            )
        return JobEnvironment(**common, strategy=strategy)


def _from_cluster(env: Mapping[str, str], text: str) -> dict[str, Any]:
    try:
        cluster = Cluster.from_json(text)
    except ValueError as error:
        raise UsageError(f"{contract.ENV_CLUSTER}: {error}") from error
    role = env.get(contract.ENV_ROLE, WORKER)
    index_text = env.get(contract.ENV_INDEX, "0")
    if not index_text.isdecimal():
        raise UsageError(f"{contract.ENV_INDEX}: must be a number from 0, not {index_text!r}")
    index = int(index_text)
    if index >= cluster.replicas.get(role, 1 if role == EVALUATOR else 0):
        raise UsageError(f"{contract.ENV_ROLE}/{contract.ENV_INDEX}: the job has no {role} {index}")
    return {
        "strategy": cluster.strategy,
        "role": role,
        "index": index,
        "leader": (role, index) == cluster.leader(),
        "workers": max(1, cluster.replicas.get(WORKER, 0)),
        "tf_config": env.get(contract.ENV_TF_CONFIG) or tf_config(cluster, role, index),
    }


def _from_tf_config(strategy: str | None, text: str) -> dict[str, Any]:
    """A process that some other launcher started: the cluster map says which strategy it was meant for."""
    try:
        parsed = json.loads(text)
        members = parsed["cluster"]
        role, index = str(parsed["task"]["type"]), int(parsed["task"]["index"])
        workers = len(members.get(WORKER, ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"TF_CONFIG: not a cluster and a task as tf.distribute reads them: {error!r}") from error
    leading = CHIEF if members.get(CHIEF) else WORKER
    return {
        "strategy": strategy or (PARAMETER_SERVER if members.get(PS) else MULTI_WORKER_MIRRORED),
        "role": role,
        "index": index,
        "leader": (role, index) == (leading, 0),
        "workers": max(1, workers),
        "tf_config": None if strategy == MIRRORED else text,
    }


def _checkpoint_policy(text: str | None) -> CheckpointPolicy:
    if not text:
        return CheckpointPolicy()
    try:
        data = dict(json.loads(text))
        every_steps = _optional_positive(data.get("everySteps"))
        every_seconds = _optional_positive(data.get("everySeconds"))
        keep = _optional_positive(data.get("keep")) or DEFAULT_KEEP
    except (ValueError, TypeError) as error:
        raise UsageError(f"{contract.ENV_CHECKPOINT}: {error}") from error
    if every_steps is None and every_seconds is None:
        every_seconds = DEFAULT_EVERY_SECONDS
    restore_from = data.get("restoreFrom")
    return CheckpointPolicy(
        every_steps=int(every_steps) if every_steps else None,
        every_seconds=every_seconds,
        keep=int(keep),
        restore_from=Path(str(restore_from)) if restore_from else None,
    )


def _optional_positive(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if number <= 0:
        raise ValueError(f"must be more than 0, not {value}")
    return number


def _positive(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name}: must be a number from 1, not {text!r}")
    return int(text)
