"""The tf.distribute strategy that the job asks for, made once a process, and what processes agree on through it."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any

import tensorflow as tf

from disttrain_agent.cluster import MIRRORED, MULTI_WORKER_MIRRORED
from disttrain_agent.contract import ENV_TF_CONFIG
from disttrain_trainer.job import JobEnvironment

_made: list[Any] = []  # the one strategy of this process, once there is one


def get_strategy(job: JobEnvironment | None = None) -> Any:
    """The job's strategy: Mirrored, MultiWorkerMirrored or ParameterServer; TensorFlow's default where no job is.

    The first call makes it and must come before any TensorFlow operation, as tf.distribute requires of strategies that
    span processes; later calls give the same one. An evaluator gets the default strategy: it trains nothing and must
    not join the cluster. Raises UsageError where the environment is wrong.
    """
    if not _made:
        _made.append(_make(job or JobEnvironment.from_environment(os.environ)))
    return _made[0]


def made() -> Any:
    """The strategy that `get_strategy` made in this process, or None."""
    return _made[0] if _made else None


def _make(job: JobEnvironment) -> Any:
    if job.tf_config is not None:
        os.environ.setdefault(ENV_TF_CONFIG, job.tf_config)
    if job.evaluates or job.strategy is None:
        return tf.distribute.get_strategy()
    if job.strategy == MIRRORED:
        return tf.distribute.MirroredStrategy(_mirrored_devices(job.cpu_devices))
    if job.strategy == MULTI_WORKER_MIRRORED:
        # A leader that cannot resolve a peer which has already joined fails at once otherwise.
        os.environ.setdefault("GRPC_FAIL_FAST", "false")
        # CommunicationOptions(timeout_seconds=...) stays unset: TensorFlow then starts a thread for each collective
        # that sleeps for the whole timeout, thousands of them. A stall is for the agent to find.
        return tf.distribute.MultiWorkerMirroredStrategy()
    # "false" makes a chief hang at its end after a parameter server was lost, "true" fails if a peer is late.
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())


def _mirrored_devices(cpu_devices: int) -> list[str]:
    """All GPUs, else the CPU, split into `cpu_devices` logical devices so that mirroring can be tried without a GPU."""
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if gpus:
        return [device.name for device in gpus]
    if cpu_devices > 1:
        physical = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(cpu_devices)]
        tf.config.set_logical_device_configuration(physical, parts)
    return [f"CPU:{index}" for index in range(cpu_devices)]


def is_multi_worker(strategy: Any) -> bool:
    """True for MultiWorkerMirroredStrategy."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_parameter_server(strategy: Any) -> bool:
    """True for ParameterServerStrategy."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def agree_on(strategy: Any, value: int) -> int:
    """The sum of `value` over all workers of a MultiWorkerMirrored cluster; `value` itself under any other strategy.

    A collective: every worker must call it, and none returns before all have called it.
    """
    if not is_multi_worker(strategy):
        return value
    return int(_sum_over_workers(strategy)(tf.constant(value, tf.int64)))


@functools.cache
def _sum_over_workers(strategy: Any) -> Any:
    members = strategy.cluster_resolver.cluster_spec().as_dict()
    replicas_per_worker = strategy.num_replicas_in_sync // sum(len(hosts) for hosts in members.values())

    def on_replica(value: Any) -> Any:
        # Several devices of one worker must count once.
        first = tf.distribute.get_replica_context().replica_id_in_sync_group % replicas_per_worker == 0
        return tf.where(first, value, tf.zeros_like(value))

    def over_workers(value: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, args=(value,)), axis=None)

    return tf.function(over_workers, autograph=False)


def wait_for_all(strategy: Any) -> None:
    """Return once every worker has come here. Raises a tf.errors.OpError if one died instead."""
    agree_on(strategy, 0)


def part(strategy: Any) -> None:
    """To be the last thing before the exit, after `wait_for_all`: leave when all are about to leave.

    A worker is past a collective, and could exit, while another is still in it and would see a broken connection. Here
    that does not matter: all have passed `wait_for_all`, so nobody's work depends on anybody any more.
    """
    with contextlib.suppress(tf.errors.OpError):
        agree_on(strategy, 0)


def checkpoint_device(strategy: Any) -> str | None:
    """The device whose host must read and write checkpoints; None where it is each variable's own host.

    The variables of a ParameterServer job live on the parameter servers, which would each write their part where the
    chief may not see it. So the chief's own host does it: https://www.tensorflow.org/api_docs/python/tf/train/
    CheckpointOptions, `experimental_io_device`.
    """
    return "/job:chief/replica:0/task:0/device:CPU:0" if is_parameter_server(strategy) else None
