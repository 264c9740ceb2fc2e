"""DistTrain's agent: PID 1 of every training pod, and the supervisor of each process of `disttrain run`.

Stdlib only, Python >= 3.9, one zip file: it must run in any image that has a Python. The parts, from pure to impure:
`contract` and `cluster` (what everybody agrees on), `supervision`, `progress`, `status` and `last_word` (pure
decisions and documents), `environment` (what we are told), `process`, `gate`, `leader`, `status_server` (one kind of
I/O each), `agent` (ties them together on one event loop), `main` (the command line).

This file must stay importable by any Python, so that `__main__` can say in one line which version is needed.
"""

__version__ = "0.1.0"
