"""Kills the child's process group when the agent is gone: run as `python -I -S -c <this file> GROUP`, stdin a pipe.

Only where the agent is not PID 1 (where it is, the kernel ends the whole PID namespace with it). The agent holds the
other end of the pipe; end of file without having been killed first means the agent ended without doing its work.
Covers what PR_SET_PDEATHSIG does not: grandchildren, and systems other than Linux.
"""

import os
import signal
import sys


def main() -> None:
    """Wait for the end of file; a stop signal meant for the agent is not for us."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    try:
        os.killpg(int(sys.argv[1]), signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # PermissionError: macOS, for a group of zombies
        return


if __name__ == "__main__":
    main()
