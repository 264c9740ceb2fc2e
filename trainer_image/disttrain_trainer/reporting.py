"""What the training process tells its agent: one JSON object a datagram, as `disttrain_agent.contract` has it.

Reporting never blocks training: a datagram that does not fit into the socket's buffer is dropped (a step) or waited for
at most `PATIENCE_SECONDS` (anything else, which is rare). Without an agent every call does nothing.
"""

from __future__ import annotations

import functools
import json
import math
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from disttrain_agent import contract

STEP_INTERVAL_SECONDS: Final = 0.1  # at most ten step events a second
PATIENCE_SECONDS: Final = 0.2
MAX_TEXT: Final = 1024

JsonValue = str | int | float | bool | None | dict[str, "JsonValue"]


def finite(value: float) -> float | str:
    """A float that JSON can carry: NaN and the infinities become "NaN", "Infinity", "-Infinity"."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def first_line(error: BaseException) -> str:
    """`ValueError: what it says`, one line: what a status or a termination message has room for.

    TensorFlow's errors from within a tf.function begin with where the node was made, file by file; what went wrong
    comes after that.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0] == "Graph execution error:":
        files = [number for number, line in enumerate(lines) if line.startswith('File "')]
        lines = lines[files[-1] + 1 if files else 1 :]
    name = type(error).__name__
    return f"{name}: {lines[0]}"[:MAX_TEXT] if lines else name


class Reporter:
    """Sends events; holds back step events that come too fast and sends the last of them before anything else."""

    def __init__(self, connection: socket.socket | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._next_step_at = -math.inf
        self._held_step: bytes | None = None

    def step(self, fields: Mapping[str, JsonValue]) -> None:
        """Report a step now, or hold it back if the last one went out less than `STEP_INTERVAL_SECONDS` ago."""
        self._held_step = _encode(contract.EVENT_STEP, fields)
        if self._clock() >= self._next_step_at:
            self.flush(patient=False)

    def event(self, name: str, fields: Mapping[str, JsonValue]) -> None:
        """Report anything but a step; the step held back goes first, so the agent sees them in order."""
        self.flush()
        self._send(_encode(name, fields), patient=True)

    def flush(self, patient: bool = True) -> None:
        """Send the step held back, if there is one."""
        if self._held_step is None:
            return
        datagram, self._held_step = self._held_step, None
        self._next_step_at = self._clock() + STEP_INTERVAL_SECONDS
        self._send(datagram, patient)

    def _send(self, datagram: bytes, patient: bool) -> None:
        if self._connection is None or len(datagram) > contract.REPORT_MAX_BYTES:
            return
        try:
            self._connection.send(datagram, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if patient and select.select([], [self._connection], [], PATIENCE_SECONDS)[1]:
                self._send(datagram, patient=False)
        except OSError:
            # The agent is gone. It supervises this process, so nobody is left to tell; training goes on.
            self._connection = None


def _encode(name: str, fields: Mapping[str, JsonValue]) -> bytes:
    message = {"event": name, **{key: value for key, value in fields.items() if value is not None}}
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def _connect() -> socket.socket | None:
    descriptor = os.environ.get(contract.ENV_REPORT_FD)
    if not descriptor:
        return None
    try:
        connection = socket.socket(fileno=int(descriptor))
        connection.set_inheritable(False)  # the program's own children are not ours to report for
    except (OSError, ValueError) as error:
        say(f"no reports to the agent: {contract.ENV_REPORT_FD}={descriptor}: {error}")
        return None
    return connection


@functools.cache
def _get() -> Reporter:
    return Reporter(_connect())


def report(*, step: int, total_steps: int | None = None, epoch: int | None = None, loss: float | None = None) -> None:
    """Tell the agent how far training is. Cheap enough to call each step.

    Args:
        step: steps of the optimizer done so far, over the whole job and not only since the last restart.
        total_steps: steps after which training is complete.
        epoch: passes over the data begun, from 1.
        loss: of this step's global batch; NaN is allowed.
    """
    loss_value = None if loss is None else finite(loss)
    _get().step({"step": step, "totalSteps": total_steps, "epoch": epoch, "loss": loss_value})


def phase(name: str) -> None:
    """`starting`, `compiling`, `training`, `evaluating`, `saving` or `exporting`."""
    _get().event(contract.EVENT_PHASE, {"phase": name})


def resumed(step: int) -> None:
    """Training continues from the checkpoint of this step; 0: from nothing."""
    _get().event(contract.EVENT_RESUMED, {"step": step})


def saved(step: int, location: str) -> None:
    """The checkpoint of this step is complete at `location`."""
    _get().event(contract.EVENT_SAVED, {"step": step, "location": location})


def evaluated(step: int, metrics: Mapping[str, float]) -> None:
    """The held-out metrics of the checkpoint of this step."""
    _get().event(contract.EVENT_EVALUATED, {"step": step, "metrics": _numbers(metrics)})


def exported(location: str, metrics: Mapping[str, float]) -> None:
    """The model is complete at `location`; `metrics` are its held-out ones."""
    _get().event(contract.EVENT_EXPORTED, {"location": location, "metrics": _numbers(metrics)})


def error(message: str) -> None:
    """Why the process is about to fail, one line."""
    _get().event(contract.EVENT_ERROR, {"message": message[:MAX_TEXT]})


def finished() -> None:
    """The program reached its end."""
    _get().event(contract.EVENT_FINISHED, {})


def flush() -> None:
    """Send what is held back: the last step must not be lost."""
    _get().flush()


def say(message: str) -> None:
    """One line for the person who reads the replica's log."""
    sys.stderr.write(f"disttrain: {message}\n")
    sys.stderr.flush()


def _numbers(metrics: Mapping[str, float]) -> dict[str, JsonValue]:
    return {name: finite(value) for name, value in metrics.items()}
