"""How long and how randomly the models run: `PROFILE`, which a test module gives to its model.

`fixed`, the default, is the same every time and everywhere, so that a failure is one for everybody. To hunt for new
ones, and to have them made small: `DISTTRAIN_PROPERTIES=hunt pytest tests/properties`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_PROFILES = {
    "fixed": settings(
        derandomize=True,
        database=None,
        max_examples=80,
        stateful_step_count=40,
        phases=[Phase.explicit, Phase.generate],
    ),
    "hunt": settings(max_examples=500, stateful_step_count=60, print_blob=True),
}
PROFILE = settings(
    _PROFILES[os.environ.get("DISTTRAIN_PROPERTIES", "fixed")],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
