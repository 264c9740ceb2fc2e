"""Waiting with a deadline."""

from __future__ import annotations

import threading

import pytest

from disttrain_trainer.waiting import Waiting


def test_an_action_that_ends_has_been_waited_for():
    assert Waiting(lambda: None).for_seconds(30)


def test_an_action_that_does_not_end_is_not_waited_for_longer():
    never = threading.Event()
    assert not Waiting(never.wait).for_seconds(0.01)
    never.set()


def test_what_the_action_raises_is_raised_to_who_waits():
    with pytest.raises(ZeroDivisionError):
        Waiting(lambda: 1 / 0).for_seconds(30)
