"""Flags and environment."""

from __future__ import annotations

import pytest

from disttrain.controller.options import parse


def test_without_flags_all_namespaces_are_served_on_the_usual_ports() -> None:
    options = parse([], {})
    assert (options.namespaces, options.health_port, options.metrics_port) == ((), 8080, 8081)


def test_every_flag_can_be_an_environment_variable() -> None:
    options = parse([], {"DISTTRAIN_HEALTH_PORT": "9000", "DISTTRAIN_TRAINER_IMAGE": "r/t:1", "POD_NAME": "operator-7"})
    assert (options.health_port, options.settings.trainer_image, options.reporter) == (9000, "r/t:1", "operator-7")


def test_a_flag_wins_over_the_environment() -> None:
    assert parse(["--health-port", "9001"], {"DISTTRAIN_HEALTH_PORT": "9000"}).health_port == 9001


@pytest.mark.parametrize(
    ("arguments", "environment", "namespaces"),
    [
        (["--namespace", "a"], {}, ("a",)),
        (["--namespaces", "a,b"], {}, ("a", "b")),
        (["--namespace", "a", "--namespace", "b", "--namespace", "a"], {}, ("a", "b")),
        ([], {"DISTTRAIN_NAMESPACES": "c, d"}, ("c", "d")),
        (["--namespace", "a"], {"DISTTRAIN_NAMESPACES": "c"}, ("a",)),
    ],
)
def test_namespaces_are_listed_or_repeated(
    arguments: list[str], environment: dict[str, str], namespaces: tuple[str, ...]
) -> None:
    assert parse(arguments, environment).namespaces == namespaces


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--concurrency", "0"], "--concurrency: must be at least 1, not 0"),
        (["--health-port", "70000"], "--health-port: must be between 0 and 65535, not 70000"),
        (["--log-format", "xml"], "--log-format: invalid choice"),
        (["--concurency", "3"], "unrecognized arguments"),
    ],
)
def test_a_bad_flag_is_a_usage_error(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments, {})
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_a_bad_environment_variable_is_a_usage_error_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([], {"DISTTRAIN_METRICS_PORT": "http"})
    assert "--metrics-port" in capsys.readouterr().err
