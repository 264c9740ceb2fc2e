"""Log lines: one JSON object each, with the job they are about."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from disttrain.controller import logs
from disttrain.controller.cache import Cache
from disttrain.controller.keys import JOB
from disttrain.core.model import Job
from tests.unit.controller.fakes import job_manifest


@pytest.fixture
def stream() -> Iterator[StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield StringIO()
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def job() -> Job:
    entry = Cache(float).read(JOB, job_manifest())
    assert entry is not None
    assert isinstance(entry.value, Job)
    return entry.value


def lines(stream: StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_about_a_job_names_it(stream: StringIO, job: Job) -> None:
    logs.configure("info", "json", stream)
    logs.for_job(logs.logger("test"), job).info("created %s", "Pod x", extra={"action": "create"})
    (line,) = lines(stream)
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "disttrain.test",
        "message": "created Pod x",
        "namespace": "ml",
        "name": "recsys",
        "uid": "job-uid",
        "generation": 1,
        "action": "create",
    }


def test_a_message_of_many_lines_is_one_line(stream: StringIO) -> None:
    logs.configure("info", "json", stream)
    logs.logger("test").error("one\ntwo", exc_info=ValueError("three\nfour"))
    assert [line["message"] for line in lines(stream)] == ["one\ntwo"]


def test_kopf_is_quiet_unless_asked(stream: StringIO) -> None:
    logs.configure("info", "json", stream)
    logging.getLogger("kopf.objects").info("Handler 'x' succeeded.")
    assert lines(stream) == []
    logs.configure("debug", "json", stream)
    logging.getLogger("kopf.objects").info("Handler 'x' succeeded.")
    assert len(lines(stream)) == 1


def test_text_is_for_people(stream: StringIO, job: Job) -> None:
    logs.configure("info", "text", stream)
    logs.for_job(logs.logger("test"), job).info("created Pod x")
    assert stream.getvalue().endswith("info    created Pod x [ml/recsys]\n")
