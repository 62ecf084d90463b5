"""Retention: what is old enough goes, and nothing that somebody may still need."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lifecycle_place import DAYS, LOG, LifecyclePlace, rule_set

from tidegate.core.deletion_records import DELETION_AUDIT_TOPIC
from tidegate.core.lifecycle.routes import DATA_MOVER_TOPIC
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC
from tidegate.core.replication.messages import POPULATOR_GROUP as REPLICATION_GROUP
from tidegate.core.replication.rules import REPLICATION
from tidegate.lifecycle.retention import Retention
from tidegate.lifecycle.topics import OBJECT_GROUP, POPULATOR_GROUP
from tidegate.movement.topics import DELETION_GROUP, create_deletion_topics
from tidegate.pipeline.log import manifest
from tidegate.pipeline.log.manifest import Manifest
from tidegate.ports import Record
from tidegate.settings import DeletionSettings, LifecycleSettings, MetalogSettings, ReplicationSettings, Settings

DAY = 86_400
KEPT = MetalogSettings().keep_days * DAY
LIMIT = MetalogSettings().limit_days * DAY
LOG_GROUPS = (POPULATOR_GROUP, REPLICATION_GROUP)


def retention(place: LifecyclePlace, data: Path, *, replicates: bool = True, **settings: object) -> Retention:
    lifecycle = LifecycleSettings(**settings)  # type: ignore[arg-type]
    replication = ReplicationSettings(enabled=replicates)
    return Retention(place.tables, place.topics, Settings(lifecycle=lifecycle, replication=replication), data)


def append(place: LifecyclePlace, topic: str, count: int) -> None:
    place.topics.append(topic, [Record(f"key:{number}", b"x") for number in range(count)])


def held(place: LifecyclePlace, topic: str) -> int:
    return sum(following - first for first, following in place.topics.bounds(topic))


def read_all(place: LifecyclePlace, topic: str = LOG, groups: tuple[str, ...] = LOG_GROUPS) -> None:
    for group in groups:
        consumer = place.topics.consumer(topic, group)
        while messages := consumer.poll(1000, 0.1):
            consumer.acknowledge(messages)
        consumer.close()


def landed(data: Path, offsets: tuple[int, ...]) -> None:
    (data / manifest.DIRECTORY).mkdir(exist_ok=True)
    manifest.store(data / manifest.DIRECTORY / manifest.FILE, Manifest(next_offsets=offsets))


def ends(place: LifecyclePlace, less: int = 0) -> tuple[int, ...]:
    return tuple(following - less for _, following in place.topics.bounds(LOG))


def list_bucket(place: LifecyclePlace) -> None:
    """A bucket with rules."""
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    read_all(place)


# --- audit trail, tasks, dead letters -------------------------------------------------------------


def test_the_audit_trail_is_kept_for_ever_only_if_that_is_set(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, AUDIT_TOPIC, 50)
    retention(place, tmp_path, audit_retention_days=0).run_once(time.time() + 1000 * DAY)
    assert held(place, AUDIT_TOPIC) == 50
    retention(place, tmp_path).run_once(time.time() + 1000 * DAY)
    assert held(place, AUDIT_TOPIC) == 0


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


def test_audit_records_are_kept_for_real_days_in_trials_with_short_ones_too(
    place: LifecyclePlace, tmp_path: Path
) -> None:
    append(place, AUDIT_TOPIC, 5)
    keeper = retention(place, tmp_path, audit_retention_days=2, day_seconds=10)
    keeper.run_once(time.time() + 2 * DAY - 60)
    assert held(place, AUDIT_TOPIC) == 5
    keeper.run_once(time.time() + 2 * DAY + 60)
    assert held(place, AUDIT_TOPIC) == 0


def test_finished_tasks_go_and_others_stay_until_their_limit(
    place: LifecyclePlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, OBJECT_TASKS_TOPIC, 20)
    keeper = retention(place, tmp_path)
    keeper.run_once(time.time() + 29 * DAY)
    assert held(place, OBJECT_TASKS_TOPIC) == 20 and not caplog.records
    read_all(place, OBJECT_TASKS_TOPIC, (OBJECT_GROUP,))
    keeper.run_once(time.time())
    assert held(place, OBJECT_TASKS_TOPIC) == 0
    append(place, OBJECT_TASKS_TOPIC, 3)
    keeper.run_once(time.time() + 31 * DAY)
    assert held(place, OBJECT_TASKS_TOPIC) == 0 and "are dropped" in caplog.text


def test_what_was_handed_over_long_ago_goes(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, DATA_MOVER_TOPIC, 3)
    retention(place, tmp_path).run_once(time.time() + 29 * DAY)
    assert held(place, DATA_MOVER_TOPIC) == 3
    retention(place, tmp_path).run_once(time.time() + 31 * DAY)
    assert held(place, DATA_MOVER_TOPIC) == 0


def test_finished_pending_deletes_go_and_others_stay_however_old(place: LifecyclePlace, tmp_path: Path) -> None:
    create_deletion_topics(place.topics, DeletionSettings(partitions=1))
    append(place, "deletion", 5)
    keeper = retention(place, tmp_path)
    keeper.run_once(time.time() + 1000 * DAY)
    assert held(place, "deletion") == 5
    consumer = place.topics.consumer("deletion", DELETION_GROUP)
    messages = consumer.poll(5, 5)
    consumer.acknowledge([messages[0], messages[3]])
    consumer.retry_later(messages[1], not_before=time.time() + 3600)
    keeper.run_once(time.time() + 1000 * DAY)
    assert place.topics.bounds("deletion") == [(2, 5)]
    assert place.topics.lag("deletion", DELETION_GROUP) == 3
    consumer.close()


def test_records_of_the_deletion_audit_go_when_their_days_are_over(place: LifecyclePlace, tmp_path: Path) -> None:
    create_deletion_topics(place.topics, DeletionSettings())
    append(place, DELETION_AUDIT_TOPIC, 5)
    keeper = retention(place, tmp_path, audit_retention_days=3)
    keeper.run_once(time.time() + 3 * DAY - 60)
    assert held(place, DELETION_AUDIT_TOPIC) == 5
    keeper.run_once(time.time() + 3 * DAY + 60)
    assert held(place, DELETION_AUDIT_TOPIC) == 0


def test_dead_letters_of_every_topic_go_after_their_days(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 1)
    consumer = place.topics.consumer(LOG, "some-group")
    (message,) = consumer.poll(10, 5)
    consumer.dead_letter(message, "unreadable")
    consumer.close()
    letters = f"{LOG}.dead-letters"
    assert held(place, letters) == 1
    retention(place, tmp_path).run_once(time.time() + 89 * DAY)
    assert held(place, letters) == 1
    retention(place, tmp_path).run_once(time.time() + 91 * DAY)
    assert held(place, letters) == 0


# --- the metadata log -----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["spark", "listing"])
def test_the_log_is_trimmed_where_no_bucket_has_rules(place: LifecyclePlace, tmp_path: Path, engine: str) -> None:
    append(place, LOG, 40)
    read_all(place)
    keeper = retention(place, tmp_path, engine=engine)
    keeper.run_once(time.time() + KEPT - 60)
    assert held(place, LOG) == 40
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_the_log_is_trimmed_where_buckets_have_rules_and_passes_list_them(
    place: LifecyclePlace, tmp_path: Path
) -> None:
    append(place, LOG, 40)
    list_bucket(place)
    retention(place, tmp_path, engine="listing").run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_the_log_is_trimmed_where_lifecycle_and_replication_are_off(place: LifecyclePlace, tmp_path: Path) -> None:
    """Though the populators, which do not run, have not read it."""
    append(place, LOG, 40)
    retention(place, tmp_path, replicates=False, enabled=False).run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_records_that_replication_has_not_read_stay(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 40)
    read_all(place, groups=(POPULATOR_GROUP,))
    for keeper in (retention(place, tmp_path), retention(place, tmp_path, enabled=False)):
        keeper.run_once(time.time() + KEPT + 60)
        assert held(place, LOG) == 40
    retention(place, tmp_path, replicates=False).run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_records_wait_for_replication_that_is_switched_off_while_a_bucket_has_rules(
    place: LifecyclePlace, tmp_path: Path
) -> None:
    append(place, LOG, 40)
    read_all(place, groups=(POPULATOR_GROUP,))
    place.tables.put(f"{REPLICATION}uid", "rules")
    keeper = retention(place, tmp_path, replicates=False)
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 40
    read_all(place, groups=(REPLICATION_GROUP,))
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_records_that_a_pass_must_land_stay_until_it_has_them(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 40)
    list_bucket(place)
    keeper = retention(place, tmp_path)
    count = held(place, LOG)
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == count  # nothing is landed
    landed(tmp_path, ends(place, less=3))
    keeper.run_once(time.time())
    assert held(place, LOG) == count  # nothing is old
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 3 * len(ends(place))


def test_records_that_the_populator_has_not_read_stay(place: LifecyclePlace, tmp_path: Path) -> None:
    append(place, LOG, 40)
    keeper = retention(place, tmp_path)
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 40
    read_all(place)
    keeper.run_once(time.time() + KEPT + 60)
    assert held(place, LOG) == 0


def test_beyond_the_limit_records_go_unread_and_that_is_an_error(
    place: LifecyclePlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, LOG, 40)
    list_bucket(place)
    count = held(place, LOG)
    landed(tmp_path, ends(place, less=3))
    keeper = retention(place, tmp_path)
    keeper.run_once(time.time() + LIMIT - 60)
    assert held(place, LOG) == 3 * len(ends(place)) < count and not _errors(caplog)
    keeper.run_once(time.time() + LIMIT + 60)
    assert held(place, LOG) == 0
    (error,) = _errors(caplog)
    assert f"{3 * len(ends(place))} records" in error and "metalog.limit_days" in error


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def test_rounds_come_often_enough_for_the_shortest_time(place: LifecyclePlace, tmp_path: Path) -> None:
    assert retention(place, tmp_path).round_seconds == 600
    short = Settings(metalog=MetalogSettings(keep_days=100 / DAY))
    assert Retention(place.tables, place.topics, short, tmp_path).round_seconds == pytest.approx(10)
