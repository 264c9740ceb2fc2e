"""The one error of this package: a test cluster cannot be had, and why."""

from __future__ import annotations


class ClusterError(Exception):
    """What is missing or went wrong, in words a person can act on. Shown as one line, without a traceback."""
