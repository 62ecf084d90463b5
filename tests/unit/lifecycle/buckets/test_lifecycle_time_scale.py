"""The length of a day: the demo shortens it only for its own pool, and only where that is allowed."""

from __future__ import annotations

import logging

import pytest
from lifecycle_place import LifecyclePlace

from tidegate.core.lifecycle.assess import SMALL_OBJECT_BYTES
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.lifecycle.buckets.bucket_context import context_of
from tidegate.lifecycle.buckets.time_scale import (
    DEMO_DAY,
    DEMO_POOL,
    day_seconds,
    demo_day_seconds,
    interval_seconds,
    restore_demo_day,
    shorten_demo_day,
)
from tidegate.settings import LifecycleSettings

ORDINARY = LifecycleSettings()
FOR_DEMOS = LifecycleSettings(demo_day=True)


def test_a_day_is_as_long_as_the_settings_say(place: LifecyclePlace) -> None:
    for settings in (ORDINARY, FOR_DEMOS, LifecycleSettings(day_seconds=5)):
        assert day_seconds(place.tables, settings, DEMO_POOL) == settings.day_seconds
        assert interval_seconds(place.tables, settings) == settings.interval_seconds


def test_the_demo_shortens_the_day_of_its_own_pool_only(place: LifecyclePlace) -> None:
    shorten_demo_day(place.tables, 10)
    assert day_seconds(place.tables, FOR_DEMOS, DEMO_POOL) == 10
    assert day_seconds(place.tables, FOR_DEMOS, "other") == 86_400
    assert interval_seconds(place.tables, FOR_DEMOS) == 5


def test_a_service_that_was_not_started_for_it_knows_no_demo(place: LifecyclePlace) -> None:
    shorten_demo_day(place.tables, 10)
    assert demo_day_seconds(place.tables, ORDINARY) is None
    assert day_seconds(place.tables, ORDINARY, DEMO_POOL) == 86_400
    assert interval_seconds(place.tables, ORDINARY) == 0


def test_a_shorter_interval_of_the_settings_stays(place: LifecyclePlace) -> None:
    shorten_demo_day(place.tables, 10)
    assert interval_seconds(place.tables, LifecycleSettings(demo_day=True, interval_seconds=2)) == 2
    assert interval_seconds(place.tables, LifecycleSettings(demo_day=True, interval_seconds=900)) == 5


def test_the_demo_can_be_ended(place: LifecyclePlace) -> None:
    shorten_demo_day(place.tables, 10)
    assert restore_demo_day(place.tables)
    assert not restore_demo_day(place.tables)
    assert day_seconds(place.tables, FOR_DEMOS, DEMO_POOL) == 86_400
    assert place.tables.get(DEMO_DAY) is None


def test_the_log_says_that_the_demo_is_on(place: LifecyclePlace, caplog: pytest.LogCaptureFixture) -> None:
    shorten_demo_day(place.tables, 17)
    with caplog.at_level(logging.WARNING):
        interval_seconds(place.tables, FOR_DEMOS)
    assert "THE DEMO IS ON: a day in the pool demo lasts 17 s" in caplog.text


def test_terms_are_those_of_the_settings() -> None:
    settings = LifecycleSettings(minimum_transition_bytes=0)
    bucket_context = context_of(settings, Versioning.ENABLED, 7, classes=("A",), keeps_null_markers=True)
    assert (bucket_context.versioning, bucket_context.day_seconds, bucket_context.minimum_transition_bytes) == (
        Versioning.ENABLED,
        7,
        0,
    )
    assert (bucket_context.classes, bucket_context.keeps_null_markers) == (("A",), True)
    ordinary = context_of(ORDINARY, Versioning.OFF, 1, classes=(), keeps_null_markers=False)
    assert (ordinary.minimum_transition_bytes, ordinary.keeps_null_markers) == (SMALL_OBJECT_BYTES, False)
