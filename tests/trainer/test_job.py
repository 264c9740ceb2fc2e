"""What the environment says about a training process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from disttrain_agent import contract
from disttrain_agent.cluster import Cluster
from disttrain_trainer.errors import UsageError
from disttrain_trainer.job import CheckpointPolicy, JobEnvironment


def environment(strategy: str, role: str, index: int, **replicas: int) -> dict[str, str]:
    cluster = Cluster("digits", "default", "cluster.local", strategy, replicas)
    return {
        contract.ENV_STRATEGY: strategy,
        contract.ENV_ROLE: role,
        contract.ENV_INDEX: str(index),
        contract.ENV_CLUSTER: cluster.to_json(),
    }


def test_without_an_environment_the_process_trains_alone():
    job = JobEnvironment.from_environment({})
    assert (job.strategy, job.leader, job.in_cluster, job.serves, job.run_dir) == (None, True, False, False, None)


@pytest.mark.parametrize(
    ("role", "index", "replicas", "leads"),
    [
        ("worker", 0, {"worker": 2}, True),
        ("worker", 1, {"worker": 2}, False),
        ("chief", 0, {"chief": 1, "worker": 2}, True),
        ("worker", 0, {"chief": 1, "worker": 2}, False),
    ],
)
def test_the_chief_leads_or_worker_0_where_there_is_none(role, index, replicas, leads):
    job = JobEnvironment.from_environment(environment("MultiWorkerMirrored", role, index, **replicas))
    assert job.leader is leads


@pytest.mark.parametrize(("role", "serves"), [("chief", False), ("worker", True), ("ps", True), ("evaluator", False)])
def test_workers_and_parameter_servers_of_a_parameter_server_job_only_serve(role, serves):
    env = environment("ParameterServer", role, 0, chief=1, worker=2, ps=1, evaluator=1)
    assert JobEnvironment.from_environment(env).serves is serves


def test_mirrored_gets_no_tf_config():
    assert JobEnvironment.from_environment(environment("Mirrored", "worker", 0, worker=1)).tf_config is None


def test_tf_config_follows_from_the_cluster():
    job = JobEnvironment.from_environment(environment("MultiWorkerMirrored", "worker", 1, worker=2))
    assert json.loads(job.tf_config or "")["task"] == {"type": "worker", "index": 1}


def test_a_tf_config_that_is_there_already_stays():
    given = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    env = environment("MultiWorkerMirrored", "worker", 1, worker=2) | {"TF_CONFIG": given}
    assert JobEnvironment.from_environment(env).tf_config == given


@pytest.mark.parametrize(
    ("cluster", "strategy"),
    [
        ({"worker": ["a:1", "b:1"]}, "MultiWorkerMirrored"),
        ({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "ParameterServer"),
    ],
)
def test_another_launchers_tf_config_alone_says_which_strategy(cluster, strategy):
    given = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    assert JobEnvironment.from_environment({"TF_CONFIG": given}).strategy == strategy


def test_the_evaluator_is_in_no_cluster():
    env = environment("ParameterServer", "evaluator", 0, chief=1, worker=1, ps=1, evaluator=1)
    job = JobEnvironment.from_environment(env)
    assert (job.evaluates, job.in_cluster, job.leader) == (True, False, False)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({contract.ENV_STRATEGY: "Mirored"}, contract.ENV_STRATEGY),
        ({contract.ENV_CLUSTER: "{"}, contract.ENV_CLUSTER),
        ({contract.ENV_CLUSTER: "{}"}, contract.ENV_CLUSTER),
        ({contract.ENV_INDEX: "2"}, "no worker 2"),
        ({contract.ENV_INDEX: "x"}, contract.ENV_INDEX),
        ({contract.ENV_CHECKPOINT: "nonsense"}, contract.ENV_CHECKPOINT),
        ({contract.ENV_CHECKPOINT: '{"everySteps": 0}'}, contract.ENV_CHECKPOINT),
        ({contract.ENV_CPU_DEVICES: "0"}, contract.ENV_CPU_DEVICES),
        ({contract.ENV_CLUSTER: "", contract.ENV_TF_CONFIG: '{"cluster": {}}'}, "TF_CONFIG"),
        ({contract.ENV_CLUSTER: ""}, "TF_CONFIG"),
    ],
)
def test_a_wrong_variable_is_named(change, named):
    env = environment("MultiWorkerMirrored", "worker", 0, worker=2) | change
    with pytest.raises(UsageError, match=named):
        JobEnvironment.from_environment(env)


def test_the_checkpoint_policy_is_read():
    env = {contract.ENV_CHECKPOINT: '{"everySteps": 50, "everySeconds": 600, "keep": 5, "restoreFrom": "/old"}'}
    assert JobEnvironment.from_environment(env).checkpoint == CheckpointPolicy(50, 600, 5, Path("/old"))


def test_without_a_policy_the_time_makes_a_save_due():
    assert JobEnvironment.from_environment({contract.ENV_CHECKPOINT: '{"keep": 2}'}).checkpoint.every_seconds


@pytest.mark.parametrize(
    ("step", "saved", "seconds", "due"),
    [
        (50, 0, 0, True),
        (49, 0, 0, False),
        (52, 48, 0, True),  # several steps at once may jump over the multiple
        (99, 60, 0, False),
        (60, 60, 100, False),
        (61, 60, 100, True),
        (1, -1, 0, True),  # another job's checkpoint was restored: this job has none of its own yet
    ],
)
def test_a_save_is_due_at_multiples_of_every_steps_and_after_every_seconds(step, saved, seconds, due):
    assert CheckpointPolicy(every_steps=50, every_seconds=100).due(step, saved, seconds) is due
