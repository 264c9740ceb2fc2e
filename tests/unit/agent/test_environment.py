"""What the agent reads from its environment, and what it gives to its child."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from disttrain_agent import contract, environment
from disttrain_agent.environment import TF_CONFIG_MAX_BYTES, UsageError
from tests.unit.agent.harness import cluster, task

PS_JOB = cluster("ParameterServer", {"chief": 1, "worker": 2, "ps": 1}, local=False)
GANG = cluster("MultiWorkerMirrored", {"worker": 3}, local=False)


def test_the_task_is_read() -> None:
    settings = environment.read(task(PS_JOB, "ps", attempt=3))
    assert (settings.identity.role, settings.identity.index, settings.identity.attempt) == ("ps", 0, 3)
    assert (settings.port, settings.grace, settings.gate_seconds) == (contract.AGENT_PORT, 120.0, 600.0)


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("DISTTRAIN_CLUSTER", None, "is not set"),
        ("DISTTRAIN_CLUSTER", "", "is empty"),
        ("DISTTRAIN_CLUSTER", "{", "Expecting property name"),
        ("DISTTRAIN_CLUSTER", "[]", "is incomplete"),
        ("DISTTRAIN_CLUSTER", '{"strategy":"Horovod"}', "unknown strategy 'Horovod'"),
        ("DISTTRAIN_STRATEGY", "Mirrored", "contradicts 'ParameterServer'"),
        ("DISTTRAIN_JOB_UID", None, "is not set"),
        ("DISTTRAIN_JOB_UID", "x" * 65, "1 to 64 bytes"),
        ("DISTTRAIN_ROLE", None, "is not set"),
        (
            "DISTTRAIN_ROLE",
            "master",
            "'master' is not a role of this ParameterServer job (chief, evaluator, ps, worker)",
        ),
        ("DISTTRAIN_INDEX", None, "is not set"),
        ("DISTTRAIN_INDEX", "2", "between 0 and 1, not '2'"),
        ("DISTTRAIN_INDEX", "-1", "between 0 and 1, not '-1'"),
        ("DISTTRAIN_INDEX", "one", "between 0 and 1, not 'one'"),
        ("DISTTRAIN_ATTEMPT", "0", "between 1 and 2147483647, not '0'"),
        ("DISTTRAIN_ATTEMPT", "9" * 5000, "between 1 and 2147483647"),
        ("DISTTRAIN_GRACE_SECONDS", "soon", "must be seconds between 0 and 604800, not 'soon'"),
        ("DISTTRAIN_GRACE_SECONDS", "nan", "must be seconds"),
        ("DISTTRAIN_GATE_SECONDS", "-1", "must be seconds"),
        ("DISTTRAIN_AGENT_PORT", "65536", "between 0 and 65535, not '65536'"),
        ("DISTTRAIN_PARENT_FD", "1234567", "file descriptor 1234567 is not open"),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_wrong(variable: str, value: str | None, complaint: str) -> None:
    environ = {**task(PS_JOB), variable: value}
    with pytest.raises(UsageError) as raised:
        environment.read({name: text for name, text in environ.items() if text is not None})
    assert str(raised.value).startswith(variable)
    assert complaint in str(raised.value)


def test_a_mirrored_job_has_workers_only() -> None:
    with pytest.raises(UsageError, match="DISTTRAIN_ROLE"):
        environment.read(task(cluster("Mirrored", {"worker": 1}), "chief"))


def test_the_port_of_a_local_task_is_the_one_its_peers_know() -> None:
    described = cluster("MultiWorkerMirrored", {"worker": 2})
    settings = environment.read(task(described, index=1))
    assert f"127.0.0.1:{settings.port}" == described.agents["worker"][1]


def test_agents_without_this_task_are_refused() -> None:
    described = replace(cluster("MultiWorkerMirrored", {"worker": 2}), agents={"worker": ["127.0.0.1:1"]})
    with pytest.raises(UsageError, match="agents has no host:port for worker 1"):
        environment.read(task(described, index=1))


@pytest.mark.parametrize(
    ("addresses", "loopback"),
    [
        ({}, False),
        ({"worker": ["127.0.0.1:1", "localhost:2", "[::1]:3"]}, True),
        ({"worker": ["127.0.0.1:1", "10.0.0.1:2", "127.0.0.1:3"]}, False),
    ],
)
def test_only_loopback_addresses_make_a_local_job(addresses: dict[str, list[str]], loopback: bool) -> None:
    settings = environment.read(task(replace(GANG, addresses=addresses)))
    assert settings.on_loopback is loopback


@pytest.mark.parametrize(
    ("described", "role", "index", "peers"),
    [
        (GANG, "worker", 1, [("worker", 2), ("worker", 0)]),
        (PS_JOB, "ps", 0, [("chief", 0), ("worker", 0), ("worker", 1)]),
        (PS_JOB, "evaluator", 0, []),
        (cluster("Mirrored", {"worker": 1}), "worker", 0, []),
    ],
)
def test_the_peers_are_the_other_members_in_ring_order(
    described: environment.Cluster, role: str, index: int, peers: list[tuple[str, int]]
) -> None:
    assert list(environment.read(task(described, role, index)).peers()) == peers


@pytest.mark.parametrize(
    ("described", "role", "holds"),
    [
        (PS_JOB, "ps", True),
        (PS_JOB, "worker", True),
        (PS_JOB, "chief", False),
        (PS_JOB, "evaluator", False),
        (GANG, "worker", False),
    ],
)
def test_ps_and_workers_of_a_ps_job_hold(described: environment.Cluster, role: str, holds: bool) -> None:
    assert environment.read(task(described, role)).holds is holds


def test_only_a_gang_has_one_attempt() -> None:
    assert environment.read(task(GANG, attempt=4)).gang_attempt == 4
    assert environment.read(task(PS_JOB, attempt=4)).gang_attempt is None


def child_env(environ: dict[str, str]) -> dict[str, str]:
    return environment.for_child(environment.read(environ), environ, report_fd=7)


def test_the_child_is_told_where_to_report_and_not_who_started_the_agent() -> None:
    env = child_env({**task(GANG), "DISTTRAIN_PARENT_FD": "0", "LANG": "C"})
    assert (env["DISTTRAIN_REPORT_FD"], env["LANG"], "DISTTRAIN_PARENT_FD" in env) == ("7", "C", False)


def test_tf_config_replaces_the_one_given() -> None:
    env = child_env({**task(GANG, index=2), "TF_CONFIG": "mine"})
    assert json.loads(env["TF_CONFIG"]) == {
        "cluster": {"worker": [f"job-worker-{n}.job.team.svc.cluster.local:2222" for n in range(3)]},
        "task": {"type": "worker", "index": 2},
    }


def test_a_mirrored_job_has_no_tf_config_even_if_one_is_given() -> None:
    assert "TF_CONFIG" not in child_env({**task(cluster("Mirrored", {"worker": 1})), "TF_CONFIG": "{}"})


def test_the_evaluator_is_not_in_its_own_map() -> None:
    config = json.loads(child_env(task(PS_JOB, "evaluator"))["TF_CONFIG"])
    assert (sorted(config["cluster"]), config["task"]) == (["chief", "ps", "worker"], {"type": "evaluator", "index": 0})


def at_length(length: int) -> dict[str, str]:
    """A task whose TF_CONFIG is this long."""
    short = child_env(task(replace(GANG, addresses={"worker": ["h:1", "h:2", "h:3"]})))["TF_CONFIG"]
    padded = "h" * (length - len(short) + 1)
    return task(replace(GANG, addresses={"worker": [f"{padded}:1", "h:2", "h:3"]}))


def test_the_longest_tf_config_an_environment_string_holds_is_passed() -> None:
    env = child_env(at_length(TF_CONFIG_MAX_BYTES))
    assert len(f"TF_CONFIG={env['TF_CONFIG']}\0") == contract.MAX_ENV_STRING_BYTES
    assert "PYTHONPATH" not in env


@pytest.mark.parametrize(
    ("given", "path"),
    [({}, environment.INJECT_DIRECTORY), ({"PYTHONPATH": "/a:/b"}, f"{environment.INJECT_DIRECTORY}:/a:/b")],
)
def test_a_longer_one_is_left_to_pythons_start(given: dict[str, str], path: str) -> None:
    env = child_env({**at_length(TF_CONFIG_MAX_BYTES + 1), **given})
    assert (env["PYTHONPATH"], "TF_CONFIG" in env) == (path, False)
