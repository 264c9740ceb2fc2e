"""Index ranges in batch/v1 Job's syntax."""

from __future__ import annotations

import pytest

from disttrain.core import indexes


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], None), ([3], "3"), ([0, 1, 2, 5], "0-2,5"), ([2, 0, 1], "0-2"), ([0, 2, 4], "0,2,4"), ([7, 8], "7-8")],
)
def test_a_set_is_rendered_as_the_shortest_text(numbers, text):
    assert indexes.render(numbers) == text


@pytest.mark.parametrize("numbers", [[], [0], [0, 1, 2, 5], list(range(0, 100, 3))])
def test_what_is_rendered_reads_back(numbers):
    assert indexes.parse(indexes.render(numbers), 1000) == set(numbers)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (None, set()),
        ("", set()),
        ("x", set()),
        ("-1", set()),
        ("5-3", set()),
        ("1,,2", {1, 2}),
        (" 1 , 2-3", {1, 2, 3}),
        ("1-2-3", set()),
        ("٣", set()),
    ],
)
def test_what_is_not_a_range_is_dropped(text, numbers):
    assert indexes.parse(text, 10) == numbers


def test_indexes_that_are_not_wanted_are_dropped_however_many_they_are():
    assert indexes.parse("0-999999999", 3) == {0, 1, 2}
