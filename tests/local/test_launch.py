"""From a rendered pod to a process: what a kubelet would do, and what only a cluster could."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from disttrain.local.launch import Launch, Machine, expand, ignored, launch, needs_tensorflow, unresolvable
from tests.local.jobs import container_job, spec_of

AGENT = (sys.executable, "-P", "-m", "disttrain_agent", "--")


def launched(
    container: dict[str, Any],
    shell: dict[str, str] | None = None,
    overrides: dict[str, str] | None = None,
    **machine: Any,
) -> Launch:
    pod = {"spec": {"containers": [{"name": "trainer", **container}]}}
    given = {"directory": Path("/jobs"), "cores": 8, "processes": 2, **machine}
    return launch(pod, container, Machine(environment=shell or {}, **given), overrides or {})


def test_a_command_runs_as_it_is_under_the_agent() -> None:
    made = launched({"command": ["python", "train.py"], "args": ["--fast"]})
    assert made.argv == (*AGENT, "python", "train.py", "--fast")


def test_without_a_command_the_args_go_to_the_trainer() -> None:
    made = launched({"args": ["train.py"]})
    assert made.argv == (*AGENT, sys.executable, "-P", "-m", "disttrain_trainer.run", "train.py")


def test_references_to_variables_are_expanded_in_command_and_args() -> None:
    made = launched(
        {
            "command": ["$(TOOL)"],
            "args": ["$(A)/x"],
            "env": [{"name": "TOOL", "value": "t"}, {"name": "A", "value": "1"}],
        }
    )
    assert made.argv[-2:] == ("t", "1/x")


def test_a_command_can_refer_to_what_is_set_for_this_machine() -> None:
    made = launched({"command": ["run", "$(DISTTRAIN_RUN_DIR)"]}, overrides={"DISTTRAIN_RUN_DIR": "/runs/a"})
    assert made.argv[-1] == "/runs/a"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
    ],
)
def test_expansion_is_kubernetes_own(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_a_variable_may_refer_to_those_before_it_only() -> None:
    env = [{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}, {"name": "C", "value": "$(A)"}]
    made = launched({"command": ["x"], "env": env})
    assert (made.env["B"], made.env["C"]) == ("$(A)", "1")


def test_the_manifest_wins_over_the_shell_and_this_machine_over_the_manifest() -> None:
    env = [{"name": "A", "value": "manifest"}, {"name": "DISTTRAIN_CLUSTER", "value": "rendered"}]
    made = launched({"command": ["x"], "env": env}, shell={"A": "shell"}, overrides={"DISTTRAIN_CLUSTER": "local"})
    assert (made.env["A"], made.env["DISTTRAIN_CLUSTER"]) == ("manifest", "local")


def test_another_jobs_variables_are_not_inherited() -> None:
    made = launched({"command": ["x"]}, shell={"TF_CONFIG": "{}", "DISTTRAIN_ROLE": "chief", "HOME": "/me"})
    assert not {"TF_CONFIG", "DISTTRAIN_ROLE"} & made.env.keys()
    assert made.env["HOME"] == "/me"


def test_the_rendered_tf_config_is_dropped_where_this_machine_gives_none() -> None:
    made = launched({"command": ["x"], "env": [{"name": "TF_CONFIG", "value": "of a cluster"}]})
    assert "TF_CONFIG" not in made.env


def test_python_means_the_one_that_runs_disttrain() -> None:
    made = launched({"command": ["python"]}, shell={"PATH": "/usr/bin"})
    assert made.env["PATH"] == os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin"])


@pytest.mark.parametrize(
    ("cores", "processes", "intra", "inter"), [(8, 2, "4", "4"), (2, 5, "1", "2"), (1, 2, "1", "2")]
)
def test_processes_share_the_cores(cores: int, processes: int, intra: str, inter: str) -> None:
    made = launched({"command": ["x"]}, cores=cores, processes=processes)
    assert (made.env["TF_NUM_INTRAOP_THREADS"], made.env["TF_NUM_INTEROP_THREADS"]) == (intra, inter)


def test_a_process_alone_may_use_all_cores() -> None:
    assert "TF_NUM_INTRAOP_THREADS" not in launched({"command": ["x"]}, processes=1).env


@pytest.mark.parametrize("place", ["shell", "manifest"])
def test_threads_that_somebody_set_stay(place: str) -> None:
    shell = {"TF_NUM_INTRAOP_THREADS": "7"} if place == "shell" else {}
    env = [{"name": "TF_NUM_INTRAOP_THREADS", "value": "7"}] if place == "manifest" else []
    assert launched({"command": ["x"], "env": env}, shell=shell).env["TF_NUM_INTRAOP_THREADS"] == "7"


def test_tensorflow_is_quiet_unless_asked() -> None:
    assert launched({"command": ["x"]}).env["TF_CPP_MIN_LOG_LEVEL"] == "2"
    assert launched({"command": ["x"]}, shell={"TF_CPP_MIN_LOG_LEVEL": "0"}).env["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_the_program_starts_where_the_manifest_lies() -> None:
    assert launched({"command": ["x"]}).directory == Path("/jobs")


def test_an_absolute_working_directory_that_exists_is_used(tmp_path: Path) -> None:
    assert launched({"command": ["x"], "workingDir": str(tmp_path)}).directory == tmp_path


@pytest.mark.parametrize("wanted", ["/app/of/the/image", "relative"])
def test_a_working_directory_of_the_image_is_not(wanted: str) -> None:
    assert launched({"command": ["x"], "workingDir": wanted}).directory == Path("/jobs")


SECRET = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}
OPTIONAL = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k", "optional": True}}}


def test_a_value_from_a_secret_cannot_be_resolved_here() -> None:
    [line] = unresolvable(spec_of(container_job({"command": ["x"], "env": [SECRET]})), {})
    assert line.startswith(
        "spec.template.spec.containers[0].env[0].valueFrom: only a cluster can resolve KEY; export KEY"
    )


def test_the_shells_value_stands_in_for_a_secret() -> None:
    assert unresolvable(spec_of(container_job({"command": ["x"], "env": [SECRET]})), {"KEY": "v"}) == []


def test_what_is_optional_may_be_missing() -> None:
    container = {"command": ["x"], "env": [OPTIONAL], "envFrom": [{"secretRef": {"name": "s", "optional": True}}]}
    assert unresolvable(spec_of(container_job(container)), {}) == []


def test_a_role_with_a_template_of_its_own_is_named_in_the_fault() -> None:
    template = {"spec": {"containers": [{"name": "trainer", "command": ["x"], "env": [SECRET]}]}}
    job = container_job({"command": ["x"]}, roles={"worker": {"replicas": 2}, "evaluator": {"template": template}})
    [line] = unresolvable(spec_of(job), {})
    assert line.startswith("spec.roles.evaluator.template.spec.containers[0].env[0]")


def test_what_only_a_cluster_has_is_named_as_ignored() -> None:
    container = {
        "image": "r/x:1",
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "command": ["x"],
    }
    job = container_job(container, storage={"claimName": "c"}, suspend=True)
    job["spec"]["template"]["spec"] |= {"nodeSelector": {"pool": "gpu"}, "volumes": [{"name": "v", "emptyDir": {}}]}
    *others, storage, suspend = ignored(spec_of(job))
    assert others == ["image", "resources", "nodeSelector", "volumes"]
    assert storage == "storage (the job's directory takes its place)"
    assert suspend == "suspend"


def test_nothing_set_is_nothing_ignored() -> None:
    assert ignored(spec_of(container_job({"command": ["x"]}))) == []


@pytest.mark.parametrize(("container", "needed"), [({"args": ["t.py"]}, True), ({"command": ["x"]}, False)])
def test_tensorflow_is_needed_where_the_default_trainer_runs(container: dict[str, Any], needed: bool) -> None:
    assert needs_tensorflow(spec_of(container_job(container))) is needed
