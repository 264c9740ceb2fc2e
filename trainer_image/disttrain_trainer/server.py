"""A worker or parameter server of a ParameterServer job: serves the chief, runs nothing of the user's program."""

from __future__ import annotations

import os
import signal
import threading
from typing import NoReturn

from disttrain_agent.contract import ENV_TF_CONFIG
from disttrain_trainer import reporting
from disttrain_trainer.job import JobEnvironment


def serve(job: JobEnvironment) -> NoReturn:
    """Run the task's tf.distribute.Server until SIGTERM, then exit 0 at once.

    `Server.join` never returns and lets no Python signal handler run, and a process that is PID 1 ignores a SIGTERM
    it has no handler for. So a thread joins and the main thread waits for the signal.
    """
    signal.signal(signal.SIGTERM, lambda _signum, _frame: os._exit(0))
    if job.tf_config is not None:
        os.environ.setdefault(ENV_TF_CONFIG, job.tf_config)
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # as the chief has it, see strategies.py
    reporting.phase("starting")
    import tensorflow as tf  # seconds: only now that the signal is taken care of

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    server = tf.distribute.Server(cluster, job_name=job.role, task_index=job.index, protocol="grpc", start=True)
    reporting.say(f"{job.role} {job.index} serves the chief at {cluster.task_address(job.role, job.index)}")
    reporting.phase("training")
    threading.Thread(target=server.join, daemon=True).start()
    while True:
        signal.pause()
