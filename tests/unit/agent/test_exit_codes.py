"""How the command ended is how the agent ends, and the last word says so."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import disttrain_agent
from disttrain_agent import contract
from tests.unit.agent.conftest import StartAgent
from tests.unit.agent.harness import PATIENCE, cluster, eventually, is_alive, python, single, task


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 1", 1, "Error"),
        ("exit 42", 42, "Saved"),
        ("exit 255", 255, "Error"),
        ("kill -KILL $$", 137, "Error"),
        ("kill -TERM $$", 143, "Error"),
        ("kill -PIPE $$", 141, "Error"),
    ],
)
def test_the_code_of_the_command_passes_through(start: StartAgent, script: str, code: int, reason: str) -> None:
    agent = start(["sh", "-c", script], single())
    assert agent.wait() == code
    assert (agent.word()["exitCode"], agent.word()["reason"]) == (code, reason)


def executable(path: Path, content: str) -> str:
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_an_unknown_command_is_127(start: StartAgent) -> None:
    agent = start(["no-such-program"], single())
    assert (agent.wait(), agent.word()["error"]) == (127, "cannot run 'no-such-program': not found")


def test_a_script_without_its_interpreter_is_127(start: StartAgent, tmp_path: Path) -> None:
    agent = start([executable(tmp_path / "train", "#!/no/such/shell\n")], single())
    assert agent.wait() == 127
    assert agent.word()["error"].endswith("its interpreter (first line) is not found")


def test_a_file_that_is_not_executable_is_126(start: StartAgent, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    agent = start([str(tmp_path / "notes")], single())
    assert (agent.wait(), agent.word()["error"]) == (126, f"cannot run '{tmp_path}/notes': Permission denied")


def test_a_file_of_no_known_format_is_126(start: StartAgent, tmp_path: Path) -> None:
    agent = start([executable(tmp_path / "train", "\x01\x02")], single())
    assert agent.wait() == 126


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no command to run"),
        (["--"], "no command to run"),
        (["--verbose", "true"], "unknown option '--verbose'"),
        (["install"], "install takes one argument"),
        (["install", "a", "b"], "install takes one argument"),
    ],
)
def test_wrong_arguments_are_one_line_and_64(arguments: list[str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "disttrain_agent", *arguments],
        env={**os.environ, **single()},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (contract.EXIT_USAGE, 1)
    assert done.stderr.startswith(f"disttrain-agent: {complaint}")


def test_what_goes_after_the_dashes_is_never_an_option(start: StartAgent) -> None:
    assert start(["--version"], single()).wait() == 127
    assert start(["install", "--version"], single()).wait() == 0  # coreutils' install


def test_the_version_is_the_distributions() -> None:
    assert disttrain_agent.__version__ == importlib.metadata.version("disttrain")


def test_a_wrong_environment_is_64_and_told_in_the_last_word(start: StartAgent) -> None:
    agent = start(["true"], {**single(), contract.ENV_ATTEMPT: "none"})
    assert agent.wait() == contract.EXIT_USAGE
    assert agent.word()["error"].startswith("DISTTRAIN_ATTEMPT: must be a whole number")
    assert len(agent.log) == 1


def test_a_taken_port_is_71_and_told_in_the_last_word(start: StartAgent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        agent = start(["true"], {**single(), contract.ENV_AGENT_PORT: str(port)})
        assert agent.wait() == contract.EXIT_CANNOT_SERVE
    assert agent.word()["error"] == f"cannot listen on port {port} (DISTTRAIN_AGENT_PORT): Address already in use"


def test_an_unwritable_termination_log_does_not_change_the_code(start: StartAgent, tmp_path: Path) -> None:
    agent = start(["sh", "-c", "exit 3"], {**single(), contract.ENV_TERMINATION_LOG: str(tmp_path)})
    assert agent.wait() == 3
    agent.logged("no termination message")


def test_the_gates_deadline_is_75_and_told_in_the_last_word(start: StartAgent) -> None:
    environ = task(cluster("MultiWorkerMirrored", {"worker": 2}), ENV_GATE_SECONDS="0.2")
    agent = start(["echo", "never"], environ)
    assert agent.wait() == contract.EXIT_PEERS_MISSING
    assert "worker-1: " in agent.word()["error"]
    assert (agent.word()["reason"], "progress" in agent.word()) == ("PeersMissing", False)


def test_output_passes_through_and_input_is_empty(start: StartAgent) -> None:
    agent = start(["sh", "-c", "cat; echo out; echo err >&2"], single())
    assert agent.line() == "out"
    assert agent.wait() == 0
    assert "err" in agent.log


def test_what_the_command_leaves_in_its_group_is_killed(start: StartAgent) -> None:
    agent = start(["sh", "-c", "trap '' TERM; sleep 1000 & echo $!; exit 5"], single())
    left = int(agent.line())
    assert agent.wait() == 5
    assert not is_alive(left)


def test_orphans_are_reaped(start: StartAgent) -> None:
    """A grandchild in a session of its own, whose parent ended: without reaping it stays a zombie of the agent's."""
    code = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(1, b"%d\\n" % os.getpid())
    os._exit(0)
os.wait()
os.write(1, b"waiting\\n"); time.sleep(1000)
"""
    agent = start(python(code), single())
    orphan = next(int(line) for line in sorted([agent.line(), agent.line()]) if line != "waiting")
    gone = Path(f"/proc/{orphan}")
    eventually(lambda: not gone.exists())


def test_a_program_that_counts_on_sigpipe_gets_it(start: StartAgent) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGPIPE))"
    shell = f"trap - PIPE; {sys.executable} -c '{code}' >/dev/null; yes | head -1 >/dev/null; echo done"
    agent = start(["sh", "-c", shell], single())
    assert agent.line() == "done"
    assert agent.wait() == 0
    assert not [line for line in agent.log if "Broken pipe" in line]
