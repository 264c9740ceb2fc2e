"""Ctrl-C, signals and sudden death of `disttrain run`: what is saved, what is said, and that no process is left."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import termios

import pytest

from tests.local.running import DISTTRAIN, Shell, containing, eventually, finish, manifest

HOLDS = ("--hold", "1")


def begin(shell: Shell, *flags: str) -> subprocess.Popen[str]:
    """A job that stands at step 12 until it is stopped."""
    shell.write(manifest(*HOLDS, *flags))
    running = shell.start("run", "job.yaml")
    shell.wait_for_step(12)
    return running


def test_ctrl_c_lets_replicas_save_and_says_what_was_saved_and_how_to_go_on(shell: Shell) -> None:
    running = begin(shell)
    running.send_signal(signal.SIGINT)
    code, out, err = finish(running)
    place = shell.job_dir().relative_to(shell.directory)
    assert code == 130, err
    assert f"tiny stopped; saved step 12 in {place}/checkpoints" in out.splitlines()
    assert containing(out.splitlines(), "go on", f"disttrain run --resume {place}")
    shell.assert_nothing_runs()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_stop_as_cleanly(shell: Shell, number: signal.Signals, code: int) -> None:
    running = begin(shell)
    running.send_signal(number)
    assert finish(running)[0] == code
    assert (shell.job_dir() / "checkpoints" / "12").exists()
    shell.assert_nothing_runs()


def test_nohup_is_respected(shell: Shell) -> None:
    shell.write(manifest(*HOLDS))
    command = f"trap '' HUP; exec {DISTTRAIN} run job.yaml"
    running = subprocess.Popen(
        ["sh", "-c", command], cwd=shell.directory, env=shell.environment(), stdout=subprocess.DEVNULL
    )
    shell.wait_for_step(12)
    running.send_signal(signal.SIGHUP)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130


def test_a_second_ctrl_c_kills_what_does_not_stop(shell: Shell) -> None:
    running = begin(shell, "--deaf")
    running.send_signal(signal.SIGINT)
    eventually(
        lambda: {c["type"]: c["status"] for c in shell.status()["conditions"]}.get("Suspended") == "True", "stop"
    )
    running.send_signal(signal.SIGINT)
    code, _, err = finish(running)
    assert code == 130, err
    shell.assert_nothing_runs()


def test_a_stop_before_any_checkpoint_says_so(shell: Shell) -> None:
    job = manifest()
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "600"]
    shell.write(job)
    running = shell.start("run", "job.yaml")
    shell.training_process("worker", 0, program="sleep")
    running.send_signal(signal.SIGINT)
    code, out, _ = finish(running)
    assert code == 130
    assert containing(out.splitlines(), "tiny stopped; no checkpoint was saved")


def test_jobs_after_a_stopped_one_are_not_begun(shell: Shell) -> None:
    shell.write(manifest(*HOLDS, name="first"), manifest(name="second"))
    running = shell.start("run", "job.yaml")
    shell.wait_for_step(12)
    running.send_signal(signal.SIGINT)
    code, _, err = finish(running)
    assert (code, err) == (130, "not run: second\n")


def test_a_stopped_job_is_printed_with_its_status(shell: Shell) -> None:
    shell.write(manifest(*HOLDS))
    running = shell.start("run", "-o", "json", "job.yaml")
    shell.wait_for_step(12)
    running.send_signal(signal.SIGINT)
    _, out, _ = finish(running)
    assert json.loads(out)["status"]["checkpoint"]["step"] == 12


def test_resume_goes_on_where_the_stop_saved(shell: Shell) -> None:
    running = begin(shell)
    running.send_signal(signal.SIGINT)
    finish(running)
    directory = shell.job_dir()
    done = shell.disttrain("run", "-o", "json", "--resume", directory.name)
    job = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert directory.name == f"tiny-{job['metadata']['uid'][:8]}"
    assert (job["status"]["attempt"], job["status"]["restarts"]) == (2, 0)
    assert "worker-0 ends at step 20" in (directory / "logs" / "tiny-worker-0-2.log").read_text()
    assert "resumed from step 12" in done.stderr


def test_resume_goes_on_after_disttrain_itself_was_killed(shell: Shell) -> None:
    running = begin(shell)
    running.kill()
    finish(running)
    shell.assert_nothing_runs()
    done = shell.disttrain("run", "-o", "json", "--resume", str(shell.job_dir()), "job.yaml")
    status = json.loads(done.stdout)["status"]
    assert done.returncode == 0, done.stderr
    assert (status["phase"], status["restarts"], status["disruptions"]) == ("Succeeded", 0, 1)


def test_resume_gives_a_failed_job_its_restarts_back(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest("--fail", "worker-1", "1", backoffLimit=0)))
    done = shell.disttrain("run", "-o", "json", "--resume", str(shell.job_dir()))
    status = json.loads(done.stdout)["status"]
    assert done.returncode == 0, done.stderr
    assert (status["phase"], status["restarts"], status["attempt"]) == ("Succeeded", 0, 2)


def test_resume_of_a_finished_job_runs_nothing(shell: Shell) -> None:
    shell.disttrain("run", shell.write(manifest()))
    logs = set((shell.job_dir() / "logs").iterdir())
    done = shell.disttrain("run", "--resume", str(shell.job_dir()))
    assert done.returncode == 0
    assert set((shell.job_dir() / "logs").iterdir()) == logs


def test_the_same_manifest_again_is_a_new_job(shell: Shell) -> None:
    file = shell.write(manifest())
    for _ in range(2):
        shell.disttrain("run", file)
    assert len(list((shell.directory / "disttrain-runs").iterdir())) == 2


def test_kill_9_of_disttrain_run_leaves_no_process(shell: Shell) -> None:
    running = begin(shell)
    running.kill()
    finish(running)
    shell.assert_nothing_runs()


def test_kill_9_of_disttrain_run_leaves_no_process_that_ignores_signals(shell: Shell) -> None:
    running = begin(shell, "--deaf")
    running.kill()
    finish(running)
    shell.assert_nothing_runs(seconds=20)


def test_a_directory_in_use_is_refused(shell: Shell) -> None:
    running = begin(shell)
    done = shell.disttrain("run", "--resume", str(shell.job_dir()))
    running.send_signal(signal.SIGINT)
    finish(running)
    assert done.returncode == 2
    assert "is in use by another" in done.stderr


def test_ctrl_c_at_a_terminal_stops_cleanly_and_leaves_the_terminal_as_it_was(shell: Shell) -> None:
    shell.write(manifest(*HOLDS))
    screen, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    running = subprocess.Popen(
        [DISTTRAIN, "run", "job.yaml"],
        cwd=shell.directory,
        env={**shell.environment(), "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509  one thread here
    )
    drawn = bytearray()
    os.set_blocking(screen, False)

    def draw(until: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            drawn.extend(os.read(screen, 65_536))
        return until in drawn

    eventually(lambda: draw(b"12/20"), "step 12 on the screen")
    os.write(screen, b"\x03")
    eventually(lambda: draw(b"tiny stopped"), "the last words")
    assert running.wait(60) == 130
    assert termios.tcgetattr(terminal) == before
    draw(b"")
    assert drawn.count(b"\x1b[?25h") >= drawn.count(b"\x1b[?25l") > 0  # the cursor was hidden, and is back
    os.close(screen)
    os.close(terminal)
    shell.assert_nothing_runs()


def _take_terminal() -> None:
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_reader_that_leaves_stops_the_run_as_cleanly(shell: Shell) -> None:
    running = begin(shell)
    assert running.stdout is not None
    running.stdout.close()
    # What the replica prints next meets a closed pipe: here the line about the restart.
    os.kill(shell.training_process("worker", 1), signal.SIGKILL)
    assert running.stderr is not None
    assert (running.stderr.read(), running.wait(60)) == ("", 129)
    assert (shell.job_dir() / "checkpoints" / "12").exists()
    shell.assert_nothing_runs()
