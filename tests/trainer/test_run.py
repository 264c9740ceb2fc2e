"""`disttrain-run`: what a program sees and how it ends. No program here imports TensorFlow."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from disttrain_agent import contract
from tests.trainer.launch import alone

SHOW = """
import json, sys
print(json.dumps([sys.argv, sys.path[0], __name__, sys.modules["__main__"].__dict__ is globals()]))
"""


def run(directory: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "disttrain_trainer.run", *arguments]
    return subprocess.run(
        command, cwd=directory, env=alone() | env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def program(tmp_path: Path):
    def write(source: str, name: str = "program.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return name

    return write


@pytest.mark.parametrize("name", ["program.py", "deep/program.py"])
def test_a_script_sees_what_python_shows_it(tmp_path, program, name):
    arguments = [program(SHOW, name), "--flag", "x"]
    plain = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(run(tmp_path, *arguments).stdout) == json.loads(plain.stdout)


def test_a_script_imports_its_neighbours_under_safe_path_too(tmp_path, program):
    program("value = 3", "neighbour.py")
    assert run(tmp_path, program("import neighbour; print(neighbour.value)"), PYTHONSAFEPATH="1").stdout == "3\n"


def test_a_module_sees_what_python_shows_it(tmp_path, program):
    program(SHOW)
    arguments = ["-m", "program", "x"]
    plain = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(run(tmp_path, *arguments).stdout)[:3] == json.loads(plain.stdout)[:3]


def test_a_functions_result_is_the_exit_code(tmp_path, program):
    program("import sys\ndef main():\n    print(sys.argv[1:])\n    return 7")
    ended = run(tmp_path, "program:main", "x")
    assert (ended.returncode, ended.stdout) == (7, "['x']\n")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('why')", 1),
        ("raise ValueError", 1),
        ("raise KeyboardInterrupt", 130),
        ("not python", 1),
    ],
)
def test_the_exit_code_is_pythons(tmp_path, program, source, code):
    assert run(tmp_path, program(source)).returncode == code


def test_a_traceback_begins_in_the_program(tmp_path, program):
    name = program("def inner():\n    raise ValueError('broken')\ninner()\n")
    plain = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run(tmp_path, name).stderr == plain.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.py"], 127, "cannot run absent.py: No such file or directory"),
        (["."], 127, "cannot run .: Is a directory"),
        ([], 64, "no program given"),
        (["-m"], 64, "no module given"),
        (["--steps", "3"], 64, "unknown option --steps"),
        (["-m", "absent"], 64, "-m absent: no such module"),
        (["-m", "absent.deep"], 64, "-m absent.deep: no such module"),
        (["absent:main"], 64, "absent: no such module"),
        (["json:absent"], 64, "json has no such function"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(tmp_path, arguments, code, message):
    ended = run(tmp_path, *arguments)
    assert ended.returncode == code
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_module_that_lacks_something_fails_with_its_own_traceback(tmp_path, program):
    program("import absent\ndef main(): ...")
    ended = run(tmp_path, "program:main")
    assert ended.returncode == 1
    assert ended.stderr.endswith("ModuleNotFoundError: No module named 'absent'\n")


def test_tf_config_is_set_from_the_cluster(tmp_path, program):
    cluster = {
        "job": "j",
        "namespace": "n",
        "domain": "d",
        "strategy": "MultiWorkerMirrored",
        "replicas": {"worker": 2},
    }
    text = json.dumps(cluster | {"port": 2222, "agentPort": 2223})
    name = program("import os; print(os.environ['TF_CONFIG'])")
    ended = run(tmp_path, name, DISTTRAIN_CLUSTER=text, DISTTRAIN_ROLE="worker", DISTTRAIN_INDEX="1")
    assert json.loads(ended.stdout)["cluster"]["worker"] == ["j-worker-0.j.n.svc.d:2222", "j-worker-1.j.n.svc.d:2222"]


def test_a_complete_job_is_not_run_again(tmp_path, program):
    (tmp_path / contract.DONE_FILE).write_text('{"step": 600, "time": "2026-01-01T00:00:00Z", "model": "/m"}')
    ended = run(tmp_path, program("print('trained')"), DISTTRAIN_RUN_DIR=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "complete already at step 600" in ended.stderr


def test_the_agent_hears_why_a_program_failed(tmp_path, program):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        command = [sys.executable, "-m", "disttrain_trainer.run", program("raise ValueError('no such column\\nx')")]
        env = alone() | {contract.ENV_REPORT_FD: str(theirs.fileno())}
        inherited = [theirs.fileno()]
        subprocess.run(command, cwd=tmp_path, env=env, pass_fds=inherited, capture_output=True, timeout=60, check=False)
        ours.setblocking(False)
        heard = [json.loads(ours.recv(8192)) for _ in range(2)]
    assert heard[-1] == {"event": "error", "message": "ValueError: no such column"}


def test_sigterm_ends_a_program_that_does_not_train(tmp_path, program):
    name = program("import signal; print('ready', flush=True); signal.pause()")
    command = [sys.executable, "-m", "disttrain_trainer.run", name]
    process = subprocess.Popen(command, cwd=tmp_path, env=alone(), stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


def test_importing_the_package_does_not_import_tensorflow():
    source = "import disttrain_trainer.run, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], timeout=60, check=False).returncode == 0
