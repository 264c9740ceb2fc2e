"""How `fit` is called so that epochs and a cut first epoch come out right."""

from __future__ import annotations

import pytest

from disttrain_trainer.fit import schedule


@pytest.mark.parametrize(
    ("start", "total", "steps_per_epoch", "calls"),
    [
        (0, 30, 10, [(0, 3, 10)]),
        (0, 35, 10, [(0, 3, 10), (3, 1, 5)]),
        (4, 30, 10, [(0, 1, 6), (1, 2, 10)]),
        (4, 8, 10, [(0, 1, 4)]),
        (24, 25, 10, [(2, 1, 1)]),
        (10, 30, 10, [(1, 2, 10)]),
        (30, 30, 10, []),
        (0, 30, None, [(0, 1, 30)]),
        (12, 30, None, [(0, 1, 18)]),
    ],
)
def test_the_calls_lead_from_where_training_stands_to_its_end(start, total, steps_per_epoch, calls):
    assert schedule(start, total, steps_per_epoch) == calls
