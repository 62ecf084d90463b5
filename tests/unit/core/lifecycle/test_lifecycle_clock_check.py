"""A clock is believed if it is not too far from the newest time that was seen."""

from __future__ import annotations

import pytest
from lifecycle_cases import DAY, MIDNIGHT

from tidegate.core.lifecycle.clock_check import why_not_believed
from tidegate.settings import LifecycleSettings

WEEK = LifecycleSettings().clock_jump_hours


@pytest.mark.parametrize("ahead", [0, 1, 3 * DAY, 7 * DAY, -DAY])
def test_a_service_that_was_off_for_some_days_goes_on(ahead):
    assert why_not_believed(MIDNIGHT + ahead, MIDNIGHT, limit_hours=WEEK) == ""


def test_a_jump_ahead_of_more_than_the_limit_is_not_believed():
    told = why_not_believed(MIDNIGHT + 7 * DAY + 1, MIDNIGHT, limit_hours=WEEK)
    assert told == "the clock shows 2024-10-11 00:00Z, 7.0 days after the last time that was seen, 2024-10-04 00:00Z"
    assert why_not_believed(MIDNIGHT + 2 * DAY, MIDNIGHT, limit_hours=47.9)
    assert not why_not_believed(MIDNIGHT + 2 * DAY, MIDNIGHT, limit_hours=48)


def test_a_clock_that_is_more_than_a_day_behind_is_not_believed():
    assert "1.0 days before a time" in why_not_believed(MIDNIGHT - DAY - 1, MIDNIGHT, limit_hours=WEEK)
    assert "before" in why_not_believed(0, MIDNIGHT, limit_hours=WEEK)


def test_the_first_time_and_every_time_without_a_limit_are_believed():
    assert why_not_believed(MIDNIGHT, None, limit_hours=WEEK) == ""
    assert why_not_believed(0, MIDNIGHT, limit_hours=0) == why_not_believed(9 * MIDNIGHT, MIDNIGHT, limit_hours=0) == ""
