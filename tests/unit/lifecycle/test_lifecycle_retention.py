"""Retention: what is old enough goes, and nothing that somebody may still need."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lifecycle_place import LOG, LifecyclePlace

from tidegate.core.lifecycle.tasks import AUDIT_TOPIC
from tidegate.lifecycle.retention import Retention
from tidegate.lifecycle.topics import POPULATOR_GROUP
from tidegate.pipeline import manifest
from tidegate.pipeline.manifest import Manifest
from tidegate.ports import Record
from tidegate.settings import LifecycleSettings, Settings

DAY = 86_400


def retention(place: LifecyclePlace, data: Path, **settings: float) -> Retention:
    return Retention(place.topics, Settings(lifecycle=LifecycleSettings(**settings)), data)  # type: ignore[arg-type]


def append(place: LifecyclePlace, topic: str, count: int) -> None:
    place.topics.append(topic, [Record(f"key:{number}", b"x") for number in range(count)])


def held(place: LifecyclePlace, topic: str) -> int:
    return sum(following - first for first, following in place.topics.bounds(topic))


def read_all(place: LifecyclePlace) -> None:
    """As the queue populator does."""
    consumer = place.topics.consumer(LOG, POPULATOR_GROUP)
    while messages := consumer.poll(1000, 0.1):
        consumer.acknowledge(messages)
    consumer.close()


def landed(data: Path, offsets: tuple[int, ...]) -> None:
    (data / manifest.DIRECTORY).mkdir(exist_ok=True)
    manifest.store(data / manifest.DIRECTORY / manifest.FILE, Manifest(next_offsets=offsets))


def test_the_audit_trail_is_kept_for_ever_unless_a_time_is_set(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, AUDIT_TOPIC, 50)
    retention(place, tmp_path).run_once(time.time() + 1000 * DAY)
    assert held(place, AUDIT_TOPIC) == 50


def test_audit_records_go_when_their_days_are_over(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, AUDIT_TOPIC, 50)
    keeper = retention(place, tmp_path, audit_retention_days=3)
    keeper.run_once(time.time() + 3 * DAY - 60)
    assert held(place, AUDIT_TOPIC) == 50
    keeper.run_once(time.time() + 3 * DAY + 60)
    assert held(place, AUDIT_TOPIC) == 0


def test_younger_records_stay_beside_old_ones(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, AUDIT_TOPIC, 40)
    time.sleep(0.05)
    between = time.time()
    time.sleep(0.05)
    append(place, AUDIT_TOPIC, 7)
    retention(place, tmp_path, audit_retention_days=1).run_once(between + DAY)
    assert held(place, AUDIT_TOPIC) == 7


def test_log_records_go_only_when_they_are_landed(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 40)
    read_all(place)
    keeper = retention(place, tmp_path, metalog_retention_days=1)
    keeper.run_once(time.time() + 2 * DAY)
    assert held(place, LOG) == 40  # nothing is landed
    ends = [following for _, following in place.topics.bounds(LOG)]
    landed(tmp_path, tuple(following - 3 for following in ends))
    keeper.run_once(time.time())
    assert held(place, LOG) == 40  # nothing is old
    keeper.run_once(time.time() + 2 * DAY)
    assert held(place, LOG) == 3 * len(ends)


def test_log_records_stay_for_ever_unless_a_time_is_set(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 40)
    read_all(place)
    landed(tmp_path, tuple(following for _, following in place.topics.bounds(LOG)))
    retention(place, tmp_path).run_once(time.time() + 1000 * DAY)
    assert held(place, LOG) == 40


def test_log_records_that_the_populator_has_not_read_stay(
    place: LifecyclePlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, LOG, 40)
    landed(tmp_path, tuple(following for _, following in place.topics.bounds(LOG)))
    keeper = retention(place, tmp_path, metalog_retention_days=1)
    keeper.run_once(time.time() + 2 * DAY)
    assert held(place, LOG) == 40 and "has not read them" in caplog.text
    read_all(place)
    keeper.run_once(time.time() + 2 * DAY)
    assert held(place, LOG) == 0


def test_days_of_trials_are_short_here_too(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, AUDIT_TOPIC, 5)
    retention(place, tmp_path, audit_retention_days=2, day_seconds=10).run_once(time.time() + 21)
    assert held(place, AUDIT_TOPIC) == 0
