"""Every malformed manifest and every refusal of the machine: exit 2, lines that name the place, never a traceback."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Shell, dump, manifest

Change = Callable[[dict[str, Any]], Any]


def job(change: Change) -> bytes:
    made = manifest()
    change(made)
    return dump(made).encode()


def spec(**parts: Any) -> Change:
    return lambda made: made["spec"].update(parts)


def container(**parts: Any) -> Change:
    return lambda made: made["spec"]["template"]["spec"]["containers"][0].update(parts)


def named(name: Any) -> Change:
    return lambda made: made["metadata"].update(name=name)


CASES: dict[str, tuple[bytes, str]] = {
    "unknown strategy": (job(spec(strategy="Horovod")), "job.yaml: document 1: spec.strategy: "),
    "no strategy": (job(lambda made: made["spec"].pop("strategy")), "job.yaml: document 1: spec.strategy: "),
    "unknown role": (job(spec(roles={"boss": {}})), "job.yaml: document 1: spec.roles.boss: "),
    "unknown field": (job(spec(backofLimit=1)), "job.yaml: document 1: spec.backofLimit: "),
    "ps under MultiWorkerMirrored": (
        job(spec(roles={"worker": {}, "ps": {}})),
        "job.yaml: document 1: spec.roles.ps: ",
    ),
    "two chiefs": (
        job(spec(roles={"worker": {}, "chief": {"replicas": 2}})),
        "document 1: spec.roles.chief.replicas: ",
    ),
    "two evaluators": (
        job(spec(roles={"worker": {}, "evaluator": {"replicas": 2}})),
        "document 1: spec.roles.evaluator.replicas: ",
    ),
    "no worker": (job(spec(roles={})), "document 1: spec.roles.worker: "),
    "replicas -1": (job(spec(roles={"worker": {"replicas": -1}})), "document 1: spec.roles.worker.replicas: "),
    "replicas 0": (job(spec(roles={"worker": {"replicas": 0}})), "document 1: spec.roles.worker"),
    "replicas 2**31": (job(spec(roles={"worker": {"replicas": 2**31}})), "document 1: spec.roles.worker.replicas: "),
    "worker: null": (job(spec(roles={"worker": None})), "document 1: spec.roles.worker: "),
    "not in this version": (job(spec(elastic={"minReplicas": 1})), "spec.elastic: not in this version"),
    "a name of 53": (job(named("a" * 53)), "document 1: metadata.name: "),
    "a name of 63": (job(named("a" * 63)), "document 1: metadata.name: "),
    "a name of 64": (job(named("a" * 64)), "document 1: metadata.name: "),
    "a name of 253": (job(named("a" * 253)), "document 1: metadata.name: "),
    "a digit first": (job(named("1job")), "document 1: metadata.name: "),
    "a dot": (job(named("a.b")), "document 1: metadata.name: "),
    "an empty name": (job(named("")), "document 1: metadata.name: "),
    "a number as name": (job(named(7)), "document 1: metadata.name: "),
    "no containers": (
        job(lambda made: made["spec"]["template"]["spec"].update(containers=[])),
        "document 1: spec.template.spec.containers: ",
    ),
    "a bad quantity": (
        job(container(resources={"requests": {"cpu": "4 cores"}})),
        "document 1: spec.template.spec.containers[0].resources.requests",
    ),
    "an env of 300 KiB": (
        job(container(env=[{"name": "BIG", "value": "x" * (300 << 10)}])),
        "document 1: spec.template.spec.containers[0].env[0].value: is 307,204 bytes",
    ),
    "another kind": (job(lambda made: made.update(kind="TFJob")), "document 1: kind: "),
    "another version": (job(lambda made: made.update(apiVersion="disttrain.dev/v2")), "document 1: apiVersion: "),
    "no spec": (job(lambda made: made.pop("spec")), "document 1: spec: "),
    "only other kinds": (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        "job.yaml: there is no DistTrainJob",
    ),
    "duplicate keys": (b"apiVersion: disttrain.dev/v1alpha1\nkind: A\nkind: B\n", "job.yaml: kind: line 3: "),
    "not UTF-8": (b"apiVersion: \xff\xfe\n", "job.yaml: line 1: "),
    "not YAML": (b"a: [1\n", "job.yaml: line 2"),
    "a list": (b"- 1\n- 2\n", "job.yaml: "),
    "a text": (b"hello", "job.yaml: "),
    "empty": (b"", "job.yaml: "),
    "only a comment": (b"# nothing\n", "job.yaml: "),
    "an alias bomb": (
        b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (c + 1, c + 1, c, c) for c in range(97, 120)),
        "job.yaml: ",
    ),
    "too large": (b"#" * (4 << 20), "job.yaml: "),
    "a secret of a cluster": (
        job(container(env=[{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}])),
        "spec.template.spec.containers[0].env[0].valueFrom: only a cluster can resolve API_KEY; export API_KEY",
    ),
    "a map of a cluster": (
        job(container(envFrom=[{"configMapRef": {"name": "settings"}}])),
        "document 1: spec.template.spec.containers[0].envFrom[0]: only a cluster can resolve configMap settings",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_manifest_is_refused_in_words(shell: Shell, case: str) -> None:
    content, expected = CASES[case]
    (shell.directory / "job.yaml").write_bytes(content)
    done = shell.disttrain("run", "job.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (shell.directory / "disttrain-runs").exists()


def test_faults_of_all_documents_are_told_and_none_runs(shell: Shell) -> None:
    bad = manifest(name="b", backoffLimit=-1)
    done = shell.disttrain("run", shell.write(manifest(name="a"), bad, bad))
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["document 2", "document 3"]


REFUSALS: dict[str, tuple[list[str], str]] = {
    "a file that is not there": (["nope.yaml"], "nope.yaml: No such file or directory"),
    "a directory": (["."], ".: is a directory; give the file with the manifest"),
    "no manifest": ([], "give a manifest"),
    "a role that does not exist": (["job.yaml", "--logs", "boss"], "'boss' is not ROLE or ROLE/INDEX"),
    "an index that is none": (["job.yaml", "--logs", "worker/x"], "'worker/x' is not ROLE or ROLE/INDEX"),
    "an output format that does not exist": (["job.yaml", "-o", "xml"], "xml"),
    "a run directory that is a file": (
        ["job.yaml", "--run-dir", "job.yaml"],
        "Not a directory; name another place with --run-dir",
    ),
    "a resume of nothing": (["--resume", "gone"], "--resume gone: cannot read job.json there"),
    "a resume of what is no run": (["--resume", "."], "cannot read job.json there"),
    "an unknown option": (["job.yaml", "--fast"], "--fast"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_wrong_use_is_refused_in_words(shell: Shell, case: str) -> None:
    arguments, expected = REFUSALS[case]
    shell.write(manifest())
    done = shell.disttrain("run", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_resume_with_another_jobs_manifest_is_refused(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest()))
    other = shell.write(manifest(name="other"), file="other.yaml")
    done = shell.disttrain("run", other, "--resume", str(shell.job_dir()))
    assert done.returncode == 2
    assert "that is job tiny, and the manifest is other's" in done.stderr


def test_a_resume_with_another_strategy_is_refused(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest()))
    other = shell.write(manifest(strategy="Mirrored", roles={}), file="other.yaml")
    done = shell.disttrain("run", other, "--resume", str(shell.job_dir()))
    assert done.returncode == 2
    assert "spec.strategy is MultiWorkerMirrored there and cannot be changed to Mirrored" in done.stderr


def test_a_resume_of_two_jobs_is_refused(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest()))
    two = shell.write(manifest(), manifest(), file="two.yaml")
    done = shell.disttrain("run", two, "--resume", str(shell.job_dir()))
    assert done.returncode == 2
    assert "goes on with one job, and 2 are given" in done.stderr


def test_missing_tensorflow_is_said_before_anything_starts(shell: Shell) -> None:
    job_without_command = manifest()
    job_without_command["spec"]["template"]["spec"]["containers"] = [{"name": "trainer", "args": ["train.py"]}]
    (shell.directory / "hide").mkdir()
    # A finder before all others that knows of no TensorFlow: an environment without the extra.
    (shell.directory / "hide" / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "known = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'tensorflow' else known(name, *rest)\n"
    )
    shell.env["PYTHONPATH"] = str(shell.directory / "hide")
    done = shell.disttrain("run", shell.write(job_without_command))
    assert done.returncode == 2
    assert "TensorFlow is not installed" in done.stderr
    assert "pip install 'disttrain[trainer]'" in done.stderr


def test_too_few_file_descriptors_for_the_ports_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write(manifest(roles={"worker": {"replicas": 100}}))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))  # inherited by what is started now
    try:
        done = shell.disttrain("run", "job.yaml")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.returncode == 2
    assert done.stderr == "disttrain: cannot reserve 200 ports on 127.0.0.1: Too many open files\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here: it is Linux's")
def test_a_full_disk_ends_the_run_in_words(shell: Shell) -> None:
    shell.write(manifest("--hold", "1"))
    running = shell.start("run", "job.yaml")
    shell.wait_for_step(12)
    scratch = shell.job_dir() / "job.tmp"
    scratch.symlink_to("/dev/full")
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "job.json: No space left on device" in err
    assert "Traceback" not in err
    shell.assert_nothing_runs()


def test_v_shows_the_traceback_of_what_went_wrong(shell: Shell) -> None:
    done = shell.disttrain("-v", "run", "--resume", "gone")
    assert "Traceback" in done.stderr
    assert done.returncode == 2
