"""`disttrain run` as a person runs it: the real binary, real agents, a program without TensorFlow."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import yaml

from tests.local.running import Shell, containing, dump, finish, manifest, texts

FAILS_ONCE = ("--fail", "worker-1", "1")
HOLDS = ("--hold", "1")


def ps_roles(workers: int = 2) -> dict[str, object]:
    return {"chief": {}, "worker": {"replicas": workers}, "ps": {"replicas": 1}, "evaluator": {}}


def test_a_job_whose_leader_exits_0_succeeds(shell: Shell) -> None:
    done = shell.disttrain("run", shell.write(manifest()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert containing(done.stdout.splitlines(), "tiny succeeded in", "20 steps")
    shell.assert_nothing_runs()


def test_the_summary_says_result_model_checkpoints_and_logs(shell: Shell) -> None:
    done = shell.disttrain("run", shell.write(manifest()))
    place = shell.job_dir().relative_to(shell.directory)
    summary = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    assert summary == [
        ["result", "accuracy 0.9688"],
        ["model", f"{place}/model"],
        ["checkpoint", f"{place}/checkpoints (step 20)"],
        ["logs", f"{place}/logs"],
    ]


def test_every_replica_logs_to_a_file_of_its_own(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest(*FAILS_ONCE)))
    logs = {path.name: path.read_text() for path in (shell.job_dir() / "logs").iterdir()}
    assert sorted(logs) == [f"tiny-worker-{index}-{attempt}.log" for index in (0, 1) for attempt in (1, 2)]
    assert "worker-0 ends at step 20" in logs["tiny-worker-0-2.log"]


def test_a_failed_replica_restarts_its_gang_and_the_job_succeeds(shell: Shell) -> None:
    done = shell.disttrain("run", "-o", "json", shell.write(manifest(*FAILS_ONCE)))
    status = json.loads(done.stdout)["status"]
    assert done.returncode == 0, done.stderr
    assert (status["phase"], status["restarts"], status["attempt"]) == ("Succeeded", 1, 2)
    assert (status["lastFailure"]["role"], status["lastFailure"]["index"]) == ("worker", 1)
    shell.assert_nothing_runs()


def test_a_restart_resumes_from_the_checkpoint_and_says_what_was_lost(shell: Shell) -> None:
    shell.write(manifest(*HOLDS, backoffLimit=1))
    running = shell.start("run", "-o", "json", "job.yaml")
    shell.wait_for_step(12)
    os.kill(shell.training_process("worker", 1), signal.SIGKILL)
    code, out, err = finish(running)
    status = json.loads(out)["status"]
    assert code == 0, err
    # The leader was asked to go when its peer died, and saved where it stood.
    assert status["lastResume"]["fromStep"] == 12
    assert containing(texts(err), "resumed from step 12")


def test_kill_9_of_a_training_process_costs_one_restart(shell: Shell) -> None:
    shell.write(manifest(*HOLDS))
    running = shell.start("run", "-o", "json", "job.yaml")
    os.kill(shell.training_process("worker", 0), signal.SIGKILL)
    code, out, err = finish(running)
    status = json.loads(out)["status"]
    assert code == 0, err
    assert (status["restarts"], status["lastFailure"]["exitCode"]) == (1, 137)
    shell.assert_nothing_runs()


def test_kill_9_of_an_agent_costs_one_restart_and_leaves_no_orphan(shell: Shell) -> None:
    shell.write(manifest(*HOLDS))
    running = shell.start("run", "-o", "json", "job.yaml")
    child = shell.training_process("worker", 1)
    os.kill(_parent(child), signal.SIGKILL)
    code, out, err = finish(running)
    assert code == 0, err
    assert json.loads(out)["status"]["restarts"] == 1
    shell.assert_nothing_runs()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_past_the_limit_the_job_fails_and_the_end_of_the_log_is_shown(shell: Shell) -> None:
    done = shell.disttrain("run", shell.write(manifest(*FAILS_ONCE, backoffLimit=0)))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert containing(lines, "tiny failed after", "BackoffLimitExceeded", "worker-1", "exit code 3", "the data ran out")
    assert containing(lines, "last lines of worker-1", "/logs/tiny-worker-1-1.log")
    assert containing(lines, "| worker-1 begins attempt 1")
    shell.assert_nothing_runs()


def test_a_program_that_does_not_exist_fails_with_its_name(shell: Shell) -> None:
    job = manifest(backoffLimit=0)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["no-such-program"]
    done = shell.disttrain("run", shell.write(job))
    assert done.returncode == 1
    assert containing(done.stdout.splitlines(), "tiny failed", "no-such-program")


def test_a_parameter_server_job_ends_with_its_chief_and_takes_the_others_along(shell: Shell) -> None:
    job = manifest("--hold", "1", strategy="ParameterServer", roles=ps_roles())
    chief = {"spec": {"containers": [{"name": "trainer", "command": ["python", "-c", "print('done')"]}]}}
    job["spec"]["roles"]["chief"] = {"template": chief}
    job["spec"]["successPolicy"] = {"evaluatorGracePeriodSeconds": 0}
    done = shell.disttrain("run", shell.write(job))
    assert done.returncode == 0, done.stdout + done.stderr
    shell.assert_nothing_runs()


def test_a_parameter_server_job_restarts_only_the_lost_worker(shell: Shell) -> None:
    job = manifest(*HOLDS, strategy="ParameterServer", roles=ps_roles())
    job["spec"]["successPolicy"] = {"evaluatorGracePeriodSeconds": 0}
    holding = ["python", job["spec"]["template"]["spec"]["containers"][0]["command"][1]]
    chief = {"spec": {"containers": [{"name": "trainer", "command": [*holding, "--hold", "1"]}]}}
    job["spec"]["roles"]["chief"] = {"template": chief}
    shell.write(job)
    running = shell.start("run", "-o", "json", "job.yaml")
    shell.wait_for_step(12)
    before = shell.training_process("chief", 0)
    os.kill(shell.training_process("worker", 1), signal.SIGKILL)
    shell.training_process("worker", 1, attempt=2)
    assert shell.training_process("chief", 0) == before
    running.send_signal(signal.SIGINT)
    finish(running)


def test_documents_run_one_after_the_other_also_after_a_failure(shell: Shell) -> None:
    jobs = [
        manifest("--fail", "worker-0", "1", name="first", backoffLimit=0),
        manifest(name="second"),
    ]
    done = shell.disttrain("run", shell.write(*jobs))
    assert done.returncode == 1
    verdicts = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("first ", "second "))]
    assert verdicts == [["first", "failed"], ["second", "succeeded"]]


def test_several_jobs_are_printed_as_one_list(shell: Shell) -> None:
    done = shell.disttrain("run", "-o", "json", shell.write(manifest(name="first"), manifest(name="second")))
    printed = json.loads(done.stdout)
    assert [job["metadata"]["name"] for job in printed["items"]] == ["first", "second"]


def test_a_manifest_comes_from_stdin(shell: Shell) -> None:
    done = shell.disttrain("run", "-", stdin=dump(manifest()).encode())
    assert done.returncode == 0, done.stderr


def test_relative_paths_begin_where_the_manifest_lies(shell: Shell) -> None:
    job = manifest()
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["python", "here.py"]
    (shell.directory / "below").mkdir()
    (shell.directory / "below" / "here.py").write_text("print('found')")
    done = shell.disttrain("run", shell.write(job, file="below/job.yaml"))
    assert done.returncode == 0, done.stdout


def test_documents_of_other_kinds_are_skipped_aloud(shell: Shell) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared"}}
    done = shell.disttrain("run", shell.write(claim, manifest()))
    assert done.returncode == 0
    assert "document 1: skipped: a PersistentVolumeClaim is not a DistTrainJob" in done.stderr


def test_machine_output_has_stdout_for_itself(shell: Shell) -> None:
    done = shell.disttrain("run", "-o", "yaml", shell.write(manifest()))
    assert yaml.safe_load(done.stdout)["status"]["model"]["metrics"] == [{"name": "accuracy", "value": "0.9688"}]


def test_quiet_prints_nothing_of_a_job_that_succeeds(shell: Shell) -> None:
    done = shell.disttrain("run", "--quiet", shell.write(manifest()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet_still_says_why_a_job_failed(shell: Shell) -> None:
    done = shell.disttrain("run", "--quiet", shell.write(manifest(*FAILS_ONCE, backoffLimit=0)))
    assert done.stdout == ""
    assert "the data ran out" in done.stderr


def test_logs_shows_the_chosen_replicas_over_restarts_and_only_these(shell: Shell) -> None:
    done = shell.disttrain("run", "--logs", "worker/1", shell.write(manifest(*FAILS_ONCE)))
    lines = done.stdout.splitlines()
    assert [line for line in lines if "begins" in line] == [
        "worker-1 | worker-1 begins attempt 1",
        "worker-1 | worker-1 begins attempt 2",
    ]
    assert not containing(lines, "worker-0 |")


def test_plain_lines_tell_the_story(shell: Shell) -> None:
    done = shell.disttrain("run", shell.write(manifest(*FAILS_ONCE)))
    story = texts(done.stdout)
    order = [
        next(place for place, line in enumerate(story) if part in line)
        for part in (
            "tiny: MultiWorkerMirrored, 2 worker",
            "worker-0 starting",
            "restarting every worker as attempt 2 (counted failures: 1 of at most 6)",
            "worker-1 starting again (attempt 2)",
            "resumed from step 1",
            "model exported to",
        )
    ]
    assert order == sorted(order)


def test_a_job_suspended_for_a_queue_runs_here_all_the_same(shell: Shell) -> None:
    done = shell.disttrain("run", shell.write(manifest(suspend=True, managedBy="kueue.x-k8s.io/multikueue")))
    assert done.returncode == 0
    assert containing(texts(done.stdout), "ignored on this machine: suspend, managedBy")


def test_a_kept_pod_policy_does_not_keep_processes(shell: Shell) -> None:
    job = manifest(cleanPodPolicy="None")
    leader_only = "import os, time; time.sleep(0 if os.environ['DISTTRAIN_INDEX'] == '0' else 600)"
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["python", "-c", leader_only]
    done = shell.disttrain("run", shell.write(job))
    assert done.returncode == 0
    shell.assert_nothing_runs()


def test_a_variable_from_a_secret_is_taken_from_the_shell(shell: Shell) -> None:
    job = manifest()
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}]
    container["command"] = ["python", "-c", "import os; assert os.environ['API_KEY'] == 'from here'"]
    shell.env["API_KEY"] = "from here"
    done = shell.disttrain("run", shell.write(job))
    assert done.returncode == 0, done.stdout


def test_the_run_directory_can_lie_elsewhere(shell: Shell) -> None:
    done = shell.disttrain("run", "--run-dir", "else/where", shell.write(manifest()))
    assert done.returncode == 0
    assert [path.name[:5] for path in (shell.directory / "else" / "where").iterdir()] == ["tiny-"]
