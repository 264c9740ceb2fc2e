"""The verbs that run nothing, and what the command promises of itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from tests.local.running import DISTTRAIN, Shell, manifest

HEAVY = (
    "kopf",
    "kubernetes",
    "yaml",
    "rich.live",
    "aiohttp",
    "tensorflow",
    "asyncio",
    "disttrain.api",
    "disttrain.core",
)


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("--help",), ("pydantic", *HEAVY)),
        (("run", "--help"), HEAVY),  # typer itself takes pydantic to read a verb's options
        (("version",), HEAVY),
    ],
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from disttrain.cli.main import main\n"
        f"sys.argv = ['disttrain', *{arguments!r}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_help_documents_the_exit_codes(shell: Shell) -> None:
    words = " ".join(shell.disttrain("run", "--help").stdout.split())
    assert "Exit codes: 0 every job succeeded. 1 a job failed" in words
    assert "2 bad manifest or usage" in words
    assert "130 stopped by Ctrl-C" in words


def test_the_verbs_are_listed(shell: Shell) -> None:
    done = shell.disttrain("--help")
    listed = done.stdout.partition("Commands:")[2].split("\n")
    assert [line.split()[0] for line in listed if line.strip()] == ["run", "validate", "render", "version"]


def test_an_unknown_verb_is_wrong_use(shell: Shell) -> None:
    done = shell.disttrain("train")
    assert done.returncode == 2
    assert "No such command 'train'" in done.stderr


def test_as_a_kubectl_plugin_it_calls_itself_so(shell: Shell) -> None:
    plugin = DISTTRAIN.with_name("kubectl-disttrain")
    done = subprocess.run([plugin, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: kubectl disttrain ")


def test_version_names_disttrain_python_and_tensorflow(shell: Shell) -> None:
    lines = shell.disttrain("version").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["disttrain", "python", "tensorflow"]


def test_validate_says_of_every_document_whether_it_is_valid(shell: Shell) -> None:
    done = shell.disttrain("validate", shell.write(manifest(name="good"), manifest(name="bad", backoffLimit=-1)))
    assert done.returncode == 2
    assert done.stdout == "good: valid\n"
    assert done.stderr.startswith("job.yaml: document 2: spec.backoffLimit: ")


def test_validate_of_valid_files_exits_0(shell: Shell) -> None:
    done = shell.disttrain("validate", shell.write(manifest(), file="a.yaml"), shell.write(manifest(), file="b.yaml"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "tiny: valid\ntiny: valid\n", "")


def test_render_prints_service_policy_and_pods(shell: Shell) -> None:
    done = shell.disttrain("render", shell.write(manifest()))
    objects = list(yaml.safe_load_all(done.stdout))
    assert [(made["kind"], made["metadata"]["name"]) for made in objects] == [
        ("Service", "tiny"),
        ("NetworkPolicy", "tiny"),
        ("Pod", "tiny-worker-0"),
        ("Pod", "tiny-worker-1"),
    ]


def test_render_repeats_shared_parts_instead_of_yaml_anchors(shell: Shell) -> None:
    done = shell.disttrain("render", shell.write(manifest()))
    assert "*id" not in done.stdout


def test_render_renders_what_a_queue_still_holds_back(shell: Shell) -> None:
    done = shell.disttrain("render", "-o", "json", shell.write(manifest(suspend=True)))
    assert len(json.loads(done.stdout)["items"]) == 4


def test_render_of_a_bad_manifest_prints_no_objects(shell: Shell) -> None:
    done = shell.disttrain("render", shell.write(manifest(backoffLimit=-1)))
    assert (done.returncode, done.stdout) == (2, "")


def test_a_reader_that_leaves_early_causes_no_traceback(shell: Shell) -> None:
    shell.write(manifest(roles={"worker": {"replicas": 200}}))
    done = subprocess.run(
        ["bash", "-c", f"{DISTTRAIN} render job.yaml | head -1"],
        cwd=shell.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("apiVersion: v1\n", "")
