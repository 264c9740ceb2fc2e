"""DistTrain's trainer: `train`, `get_strategy` and `report` for programs, `disttrain-run` for the command line.

Importing this package does not import TensorFlow, which takes seconds: what needs it is looked up when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disttrain_trainer.completion import Result
from disttrain_trainer.context import DataContext
from disttrain_trainer.reporting import report
from disttrain_trainer.train import train

if TYPE_CHECKING:
    from disttrain_trainer.data import batches_of
    from disttrain_trainer.strategies import get_strategy

__all__ = ["DataContext", "Result", "batches_of", "get_strategy", "report", "train"]


def __getattr__(name: str) -> Any:
    if name == "batches_of":
        from disttrain_trainer.data import batches_of

        return batches_of
    if name == "get_strategy":
        from disttrain_trainer.strategies import get_strategy

        return get_strategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
