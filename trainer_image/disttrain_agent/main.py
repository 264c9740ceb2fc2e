"""The command line: `disttrain-agent [--] COMMAND [ARGS...]`, `disttrain-agent install DEST`, `--version`."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NoReturn, Optional, Sequence

from disttrain_agent import __version__, contract, environment, last_word
from disttrain_agent.agent import Agent
from disttrain_agent.environment import UsageError
from disttrain_agent.install import install
from disttrain_agent.log import log
from disttrain_agent.status import rfc3339

USAGE: Final = """\
usage: disttrain-agent [--] COMMAND [ARGS...]   run COMMAND as one task of a DistTrainJob
       disttrain-agent install DEST             copy the agent as one executable file to DEST (a path or a directory)
       disttrain-agent --version

The task is described by the environment variables DISTTRAIN_*, which the operator and `disttrain run` set.
"""


def main(argv: Optional[Sequence[str]] = None) -> NoReturn:
    """Run and exit: with the command's exit code, or one of `contract.EXIT_*`."""
    code = run(sys.argv[1:] if argv is None else argv)
    sys.stdout.flush()
    # Not sys.exit: it would wait for threads in name lookups that hang in the C library.
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """`main` without the exit."""
    arguments = list(argv)
    try:
        if arguments in (["--help"], ["-h"]):
            sys.stdout.write(USAGE)
            return 0
        if arguments == ["--version"]:
            sys.stdout.write(f"disttrain-agent {__version__}\n")
            return 0
        if arguments[:1] == ["install"]:
            return _install(arguments[1:])
        return _supervise(_command(arguments))
    except UsageError as error:
        log(str(error))
        _last_word(contract.EXIT_USAGE, contract.REASON_USAGE_ERROR, str(error))
        return contract.EXIT_USAGE


def _command(arguments: Sequence[str]) -> Sequence[str]:
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not command:
        raise UsageError("no command to run: disttrain-agent [--] COMMAND [ARGS...]")
    if arguments[0] != "--" and arguments[0].startswith("-"):
        raise UsageError(f"unknown option {arguments[0]!r}; a command that begins with - goes after --")
    return command


def _install(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        raise UsageError("install takes one argument, where to put the agent; a program called install goes after --")
    try:
        log(f"installed as {install(arguments[0])}")
    except OSError as error:
        log(f"cannot install to {arguments[0]}: {error.strerror or error}")
        return 1
    return 0


def _supervise(command: Sequence[str]) -> int:
    settings = environment.read(os.environ)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(Agent(settings, command).run())
    except Exception as error:  # noqa: BLE001  (a fault of ours, told in full; the child dies with us)
        traceback.print_exc()
        _last_word(contract.EXIT_INTERNAL_ERROR, contract.REASON_INTERNAL_ERROR, f"the agent failed: {error!r}")
        return contract.EXIT_INTERNAL_ERROR


def _last_word(code: int, reason: str, error: str) -> None:
    """For an end without an `Agent` that could tell more."""
    path, ours = environment.termination_log(os.environ)
    if not ours and not Path(path).exists():
        return  # run by hand, not by a kubelet
    word = {
        "version": contract.PROTOCOL_VERSION,
        "state": contract.STATE_EXITED,
        "exitCode": code,
        "reason": reason,
        "error": error,
        "time": rfc3339(datetime.now(timezone.utc)),
    }
    last_word.write(word, path, ours)


if __name__ == "__main__":
    main()
