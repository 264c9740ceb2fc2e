"""Logs for machines: one JSON object a line, one line an action, with the job it was about. Or text for people."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from typing_extensions import override

from disttrain.core.model import Job

LogFormat = Literal["json", "text"]
_FIELDS: Final = "fields"

# kopf tells of every event of every object it sees, at INFO.
_CHATTER: Final = ("kopf", "kubernetes", "aiohttp", "asyncio")


class _Fields(logging.LoggerAdapter[logging.Logger]):
    """A logger with fields of its own; those of a call (`extra={...}`) are added."""

    @override
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, {**kwargs, "extra": {_FIELDS: fields}}


def logger(name: str) -> _Fields:
    """A logger whose calls take fields: `log.info("ready", extra={"port": 8080})`."""
    return _Fields(logging.getLogger(f"disttrain.{name}"), {})


def for_job(log: _Fields, job: Job) -> _Fields:
    """The same logger, saying which job it is about."""
    fields = {"namespace": job.namespace, "name": job.name, "uid": job.uid, "generation": job.generation}
    return _Fields(log.logger, {**(log.extra or {}), **fields})


class JsonFormatter(logging.Formatter):
    """`{"time": RFC 3339, "level": "info", "logger": ..., "message": ..., <fields>}`."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`20:00:00 info    created Pod recsys-worker-0 [ml/recsys]`."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, {})
        about = f" [{fields['namespace']}/{fields['name']}]" if "name" in fields else ""
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        line = f"{clock} {record.levelname.lower():7} {record.getMessage()}{about}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(level: str, format: LogFormat, stream: TextIO | None = None) -> None:  # noqa: A002  the flag's name
    """Send all logs to a stream (stderr). `level` is ours; libraries are quieter unless it is DEBUG."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _CHATTER:
        logging.getLogger(name).setLevel(logging.NOTSET if level.upper() == "DEBUG" else logging.WARNING)
