"""The conductor starts a pass by the clock, once per round, unless the last one is still at work."""

from __future__ import annotations

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set

from tidegate.core.errors import Conflict, InvalidInput, NotFound
from tidegate.lifecycle.passes import PassLock, PassReports
from tidegate.lifecycle.topics import backlog

ONE = 1_800_000_000.0  # a time at which 01:00 is some hours away


def finish(place: LifecyclePlace) -> None:
    bucket_processor, object_processor = place.bucket_processor(), place.object_processor()
    while any(backlog(place.topics)):
        bucket_processor.run_once()
        object_processor.run_once()
    bucket_processor.close()
    object_processor.close()


def test_an_interval_starts_the_first_round_at_once_and_each_next_in_time(place: LifecyclePlace) -> None:
    conductor = place.conductor(interval_seconds=10)
    started = [now for now in range(0, 40, 3) if conductor.run_once(ONE + now) is not None]
    assert started == [0, 12, 24, 36]


def test_a_cron_expression_starts_a_round_when_its_time_comes(place: LifecyclePlace) -> None:
    conductor = place.conductor(cron="0 * * * *")
    assert conductor.run_once(ONE) is None
    assert conductor.run_once(ONE + 1) is None
    following = ONE - ONE % 3600 + 3600
    assert conductor.run_once(following - 1) is None
    assert conductor.run_once(following) is not None
    assert conductor.run_once(following + 1) is None


def test_a_round_that_was_missed_is_made_up_for_once(place: LifecyclePlace) -> None:
    place.conductor(cron="0 * * * *").run_once(ONE)
    later = place.conductor(cron="0 * * * *")
    assert later.run_once(ONE + 10 * 3600) is not None
    assert later.run_once(ONE + 10 * 3600 + 1) is None


def test_of_two_conductors_one_gets_the_round(place: LifecyclePlace) -> None:
    one, other = place.conductor(interval_seconds=10), place.conductor(interval_seconds=10)
    rounds = [conductor.run_once(ONE + now) for now in (0, 10, 20) for conductor in (one, other)]
    assert [report is not None for report in rounds] == [True, False] * 3


def test_a_clock_that_was_set_back_does_not_stop_the_rounds(place: LifecyclePlace) -> None:
    conductor = place.conductor(interval_seconds=10)
    assert conductor.run_once(ONE) is not None
    assert conductor.run_once(ONE - 5000) is None
    assert conductor.run_once(ONE - 4990) is not None


def test_one_task_is_published_per_bucket_with_rules(place: LifecyclePlace) -> None:
    place.pool()
    photos, films = place.bucket("photos", rule_set(DAYS)), place.bucket("films", rule_set(DAYS))
    place.bucket("plain")
    report = place.conductor(interval_seconds=1).run_once(ONE)
    assert report is not None and report.buckets == 2
    tasks = {(task.bucket, task.bucket_uid, task.pass_id, task.now_ns, task.owner) for task in place.bucket_tasks()}
    now_ns = int(ONE * 1e9)
    assert tasks == {(bucket.name, bucket.uid, report.id, now_ns, "owner") for bucket in (photos, films)}


def test_entries_of_buckets_that_are_gone_are_dropped(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    place.registry.delete_bucket("photos")
    report = place.conductor(interval_seconds=1).run_once(ONE)
    assert report is not None and report.buckets == 0
    assert (place.listed(), place.bucket_tasks()) == ([], [])


def test_a_round_is_skipped_while_the_last_pass_has_a_backlog(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    conductor = place.conductor(interval_seconds=10)
    assert conductor.run_once(ONE) is not None
    assert conductor.run_once(ONE + 10) is None
    with pytest.raises(Conflict, match="1 listings and 0 actions"):
        conductor.start(ONE + 11, trigger="manual")
    finish(place)
    assert conductor.run_once(ONE + 15) is None  # its round is used up
    assert conductor.run_once(ONE + 20) is not None


def test_a_round_is_skipped_while_somebody_holds_the_lock(place: LifecyclePlace) -> None:
    lock = PassLock(place.tables, seconds=60)
    assert lock.try_acquire()
    assert place.conductor(interval_seconds=10).run_once(ONE) is None
    assert lock.renew()
    lock.release()
    assert not lock.renew()
    assert place.conductor(interval_seconds=10).run_once(ONE + 10) is not None


def test_the_report_of_a_pass_says_what_it_did_and_its_tasks_are_cleared_away(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    for key in ("a", "b"):
        store.put(key, ONE - 1000)
    conductor = place.conductor(interval_seconds=10)
    report = conductor.run_once(ONE)
    assert report is not None
    conductor.close_ended(ONE + 1)
    finish(place)
    conductor.close_ended(ONE + 5)
    (ended,) = PassReports(place.tables).all()
    assert (ended.id, ended.ended_ns, ended.outcomes) == (report.id, int((ONE + 5) * 1e9), {"DONE": 2})
    assert (place.bucket_tasks(), place.object_tasks()) == ([], [])


def test_a_pass_for_one_bucket_leaves_the_others_alone(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    place.bucket("films", rule_set(DAYS))
    place.bucket("plain")
    conductor = place.conductor()
    with pytest.raises(NotFound, match="plain"):
        conductor.start(ONE, trigger="manual", bucket="plain")
    conductor.start(ONE, trigger="manual", bucket="films")
    assert [task.bucket for task in place.bucket_tasks()] == ["films"]


def test_only_the_newest_reports_are_kept(place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.lifecycle.passes._MOST_REPORTS", 3)
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    conductor = place.conductor(interval_seconds=1)
    ids = []
    for number in range(5):
        report = conductor.run_once(ONE + number)
        assert report is not None
        ids.append(report.id)
        finish(place)
    assert [report.id for report in PassReports(place.tables).all()] == ids[2:]


def test_a_cron_expression_that_is_none_is_refused_at_the_start(place: LifecyclePlace) -> None:
    with pytest.raises(InvalidInput):
        place.conductor(cron="daily at one")


def test_the_books_of_a_pass_are_closed_before_the_next_one_begins(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    conductor = place.conductor()
    first = conductor.start(ONE, trigger="manual")
    finish(place)
    second = conductor.start(ONE + 1, trigger="manual")
    reports = {report.id: report.ended_ns for report in PassReports(place.tables).all()}
    assert reports == {first.id: int((ONE + 1) * 1e9), second.id: None}


def test_closing_late_does_not_forget_the_pass_that_has_begun_meanwhile(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    first = place.conductor().start(ONE, trigger="manual")
    finish(place)
    second = place.conductor().start(ONE + 1, trigger="manual")
    reports = PassReports(place.tables)
    reports.end(first.ended(int((ONE + 2) * 1e9), {}))
    running = reports.running()
    assert running is not None and running.id == second.id
