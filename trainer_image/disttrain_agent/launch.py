"""Between fork and exec, in a Python of its own: run as `python -I -S -c <this file> PARENT_PID COMMAND ARGS...`.

A child must die with its agent (PR_SET_PDEATHSIG, prctl(2)), and only the child can ask for that. Python code between
fork and exec (`preexec_fn`) can deadlock in a process with threads, so a small program of one thread does it and then
becomes the command. It keeps pid, session and descriptors, so nobody can tell the difference. Exit codes are a
shell's: 127 not found, 126 found but not executable; the reason also goes to the agent as an error report.
"""

import errno
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """SIGKILL for this process when the thread that started it ends (the agent has only its main one start it).

    Linux only. Elsewhere, and for what the child itself starts, `disttrain_agent.process` has its guard.
    """
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        return  # a Python without ctypes: the guard remains
    if os.getppid() != parent:  # it died before the request was made
        os._exit(128 + signal.SIGKILL)


def explain(command: str, error: OSError) -> str:
    """Why the command cannot be executed, in one line."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        found = os.path.isfile(command)  # noqa: PTH113  (pathlib would double the start-up time)
        return f"cannot run {command!r}: " + ("its interpreter (first line) is not found" if found else "not found")
    return f"cannot run {command!r}: {error.strerror}"


def tell(message: str) -> None:
    """To stderr for the log, and as a datagram to the agent for the termination message."""
    line = "".join(c if c.isprintable() else "?" for c in message)[:1000]
    os.write(2, f"disttrain-agent: {line}\n".encode("utf-8", "replace"))
    descriptor = os.environ.get("DISTTRAIN_REPORT_FD", "")
    if descriptor.isdigit():
        import json

        os.write(int(descriptor), json.dumps({"event": "error", "message": line}).encode())


def main() -> None:
    """Become the command, or say why not."""
    # Python ignores these at its start, and exec would hand that on to programs that count on dying of them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    die_with(int(sys.argv[1]))
    command = sys.argv[2:]
    try:
        os.execvp(command[0], command)  # noqa: S606  (that is what this program is for)
    except OSError as error:
        tell(explain(command[0], error))
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)


if __name__ == "__main__":
    main()
