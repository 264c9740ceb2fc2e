"""`disttrain-run program.py [args]`: run an ordinary program as one replica of its job.

What the program sees (`sys.argv`, `sys.path[0]`, `__main__`) is what `python program.py` gives it. Also understood:
`disttrain-run -m module [args]` and `disttrain-run module:function [args]`.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NoReturn

from disttrain_agent.contract import ENV_TF_CONFIG
from disttrain_trainer import program, reporting
from disttrain_trainer.completion import read_done, report_done
from disttrain_trainer.errors import usage_errors_exit
from disttrain_trainer.job import JobEnvironment
from disttrain_trainer.waiting import Waiting

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell has it
QUIET_SECONDS: Final = 15.0
END_SECONDS: Final = 600.0  # the leader may have a large model to export after the last step
# C++ log lines of level INFO say nothing about the program; a level that is set already stays.
TF_LOG_LEVEL: Final = "1"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the program given on the command line and exit with its code.

    Exit codes: the program's own; 1 if it raises; 64 if the arguments, module or function do not fit; 127 if the
    program is not there.
    """
    reporting.phase("starting")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", TF_LOG_LEVEL)
    arguments = list(sys.argv[1:] if argv is None else argv)
    code = _exit_code_of(lambda: _run(arguments)) or _exit_code_of(_end)
    reporting.flush()
    _leave(code)


def _run(arguments: list[str]) -> None:
    """Do what this process's role needs."""
    with usage_errors_exit():
        job = JobEnvironment.from_environment(os.environ)
        if job.tf_config is not None:
            # Set here and not by exec: a string of the environment cannot be longer than 128 KiB there.
            os.environ.setdefault(ENV_TF_CONFIG, job.tf_config)
        if job.serves:
            from disttrain_trainer import server

            server.serve(job)
        target = program.parse(arguments)
        if not job.evaluates and (done := read_done(job.run_dir)):
            report_done(done)
        else:
            target.run()


def _end() -> None:
    """Under MultiWorkerMirrored: wait for the others, whom a worker that leaves early takes down with it.

    For a while only: a program that trains a loop of its own may have come to its end in this worker alone, and then
    the others wait for it in a step; once it has left, they fail and say so.
    """
    strategies = sys.modules.get("disttrain_trainer.strategies")  # TensorFlow is not imported just to ask
    strategy = None if strategies is None else strategies.made()
    if strategies is not None and strategy is not None and strategies.is_multi_worker(strategy):
        together = Waiting(lambda: (strategies.wait_for_all(strategy), strategies.part(strategy)))
        if not together.for_seconds(QUIET_SECONDS):
            reporting.say("this worker is at the end of the program and waits for the others")
            if not together.for_seconds(END_SECONDS):
                reporting.say(f"the others did not come to the end within {END_SECONDS} s; leaving without them")
    reporting.finished()


def _exit_code_of(action: Callable[[], None]) -> int:
    """Run the action; the code with which Python would exit after it."""
    try:
        action()
    except SystemExit as request:
        # https://docs.python.org/3/library/exceptions.html#SystemExit
        if request.code is None or isinstance(request.code, int):
            return request.code or 0
        sys.stderr.write(f"{request.code}\n")
        reporting.error(str(request.code))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is its failure, told before the exit
        _print_traceback(error)
        reporting.error(reporting.first_line(error))
        return EXIT_FAILED
    return 0


def _print_traceback(error: BaseException) -> None:
    """As Python prints it for `python program.py`: without the frames of this package that called the program."""
    frames: TracebackType | None = error.__traceback__
    callers = (__file__, program.__file__, importlib.__file__)
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(("<frozen ", *callers)):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _leave(code: int) -> NoReturn:
    """Exit. With a cluster at once: TensorFlow's own shutdown takes seconds there, or hangs once a peer is gone."""
    clustered = bool(os.environ.get(ENV_TF_CONFIG)) and "tensorflow" in sys.modules
    if not clustered:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue  # nobody reads it any more
    os._exit(code)


if __name__ == "__main__":
    main()
