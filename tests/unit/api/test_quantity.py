"""Amounts of resources as Kubernetes writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from disttrain.api.quantity import check_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        ("500m", "0.5"),
        ("16Gi", str(16 * 2**30)),
        ("1.5k", "1500"),
        ("2e3", "2000"),
        ("2E-3", "0.002"),
        ("1E", "1000000000000000000"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("-1", "-1"),
        ("100n", "0.0000001"),
    ],
)
def test_a_quantity_is_a_number_with_a_suffix(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "x", "16GB", "4 cores", "1Ki1", "0x1", "1e", "--1", "Gi", "1,5", "٣", "1" * 65])
def test_anything_else_is_none(text: str) -> None:
    assert parse_quantity(text) is None


@pytest.mark.parametrize("value", [None, True, 0.5, [], {}])
def test_only_texts_and_integers_are_amounts(value: Any) -> None:
    assert check_quantity(value) is not None


@pytest.mark.parametrize("value", [0, 2, "500m"])
def test_amounts_are_in_order(value: Any) -> None:
    assert check_quantity(value) is None
