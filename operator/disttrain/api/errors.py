"""What is wrong with a manifest, in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True, slots=True, order=True)
class FieldError:
    """One fault: where (`spec.roles.worker.replicas`; empty for the whole document) and what it is."""

    path: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidManifest(Exception):  # noqa: N818  # reads as what it says: raise InvalidManifest
    """A manifest cannot be used. `errors` holds every fault found, in the order of the resource's fields; never empty.

    `source` is the file the manifest came from, or empty; it stands before each fault in `str()`.
    """

    def __init__(self, errors: Iterable[FieldError], source: str = "") -> None:
        self.errors: tuple[FieldError, ...] = tuple(errors)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{error}" for error in self.errors))
