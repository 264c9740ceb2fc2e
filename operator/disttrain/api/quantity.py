"""Kubernetes resource quantities: 500m, 16Gi, 2e3.

The grammar of k8s.io/apimachinery/pkg/api/resource.Quantity: a signed decimal number and one suffix, binary (Ki..Ei),
decimal (n, u, m, k, M..E) or a decimal exponent.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from disttrain.api.wording import shown

_NUMBER: Final = r"[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_SUFFIX: Final = r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
PATTERN: Final = f"^{_NUMBER}{_SUFFIX}$"
"""Amounts that are not negative; in the common part of Python's, Go's and ECMA's regular expressions."""
_GRAMMAR: Final = re.compile(f"(?P<number>-?{_NUMBER})(?P<suffix>{_SUFFIX})", re.ASCII)
_FACTORS: Final = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), start=1)},
    "": Decimal(1),
}
MAX_QUANTITY_LENGTH: Final = 64


def parse_quantity(text: str) -> Decimal | None:
    """The quantity in base units (cores, bytes, pieces); None if it is not one."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= MAX_QUANTITY_LENGTH else None
    if match is None:
        return None
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix in _FACTORS:
        return number * _FACTORS[suffix]
    return number * Decimal(10) ** int(suffix[1:])


def check_quantity(value: Any) -> str | None:
    """What is wrong with `value` as an amount of a resource, or None."""
    amount = isinstance(value, str | int) and not isinstance(value, bool)
    parsed = parse_quantity(str(value)) if amount else None
    if parsed is None:
        return f"must be a quantity such as 500m, 2 or 16Gi, not {shown(value)}"
    if parsed < 0:
        return f"must not be negative, but is {value}"
    return None
