"""The conductor starts a pass by the clock, once per round, unless the last one is still at work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set

from tidegate.core.errors import Conflict, InvalidInput, NotFound
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.shards import SHARDS
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.conductor import Conductor
from tidegate.lifecycle.passes.engines import open_engines
from tidegate.lifecycle.passes.pass_lock import LOCK, PassLock
from tidegate.lifecycle.passes.pass_records import (
    PassOrder,
    PassProgress,
    PassReport,
    PassReports,
    PassRequests,
    PassStatus,
    new_pass_id,
)
from tidegate.lifecycle.passes.plan_files import PlanFiles

ONE = 1_800_000_000.0  # a time at which 01:00 is some hours away


def order(now: float, bucket: str = "") -> PassOrder:
    now_ns = int(now * 1e9)
    return PassOrder(new_pass_id(now_ns), "request", now_ns, 0, bucket)


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


def test_a_pass_looks_after_the_buckets_with_rules(place: LifecyclePlace) -> None:
    store = place.pool()
    for name in ("photos", "films"):
        place.bucket(name, rule_set(DAYS))
    place.bucket("plain")
    store.put("a", ONE - 1000)
    with place.working():
        report = place.conductor(interval_seconds=1).run_once(ONE)
    assert report is not None and report.buckets == 2
    assert {detail.bucket for detail in report.details} == {"photos", "films"}
    assert {record.task.pass_id for record in place.audits()} == {report.id}


def test_entries_of_buckets_that_are_gone_are_dropped(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    place.registry.delete_bucket("photos")
    report = place.conductor(interval_seconds=1).run_once(ONE)
    assert report is not None and report.buckets == 0
    assert place.listed() == []


def test_a_round_is_skipped_while_the_last_pass_has_a_backlog(place: LifecyclePlace) -> None:
    """Such as that of a pass whose process was killed."""
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    store.put("a", ONE - 1000)
    place.plan(now=ONE)
    conductor = place.conductor(interval_seconds=10)
    assert conductor.run_once(ONE + 10) is None
    with pytest.raises(Conflict, match="1 actions of the last pass"):
        conductor.start(order(ONE + 11), "listing")
    place.finish()
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
    bucket = place.bucket("photos", rule_set(DAYS))
    for key in ("a", "b"):
        store.put(key, ONE - 1000)
    with place.working():
        report = place.conductor(interval_seconds=10).run_once(ONE)
    assert report is not None and (report.status, report.planned, report.outcomes) == (PassStatus.OK, 2, {"DONE": 2})
    assert PassReports(place.tables).all() == [report]
    assert (place.object_tasks(), store.versions) == ([], {})
    assert len(CursorStore(place.tables).load(bucket.uid)) == SHARDS
    assert PassProgress.load(place.tables) is None


def test_a_dry_run_by_listing_shows_the_plan_and_changes_nothing(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    store.put("a", ONE - 1000)
    report = place.conductor().start(replace(order(ONE), dry_run=True), "listing")
    assert (report.status, report.planned, report.outcomes, report.dry_run) == (PassStatus.OK, 1, {}, True)
    assert [entry.key for entry in PlanFiles(place.data, report.id).first(10)] == ["a"]
    assert (place.object_tasks(), CursorStore(place.tables).load(bucket.uid)) == ([], {})


def test_a_store_that_refuses_blocks_its_bucket(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    store.put("a", ONE - 1000)
    store.refused["a"] = "AccessDenied"
    with place.working():
        report = place.conductor().start(order(ONE), "listing")
    assert (report.status, report.outcomes) == (PassStatus.BLOCKED, {"BLOCKED": 1})
    assert len(CursorStore(place.tables).load(bucket.uid)) == SHARDS - 1


def test_a_pass_for_one_bucket_leaves_the_others_alone(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    place.bucket("films", rule_set(DAYS))
    place.bucket("plain")
    store.put("a", ONE - 1000)
    conductor = place.conductor()
    with pytest.raises(NotFound, match="plain"):
        conductor.start(order(ONE, "plain"), "listing")
    with place.working():
        conductor.start(order(ONE, "films"), "listing")
    assert {record.task.bucket for record in place.audits()} == {"films"}


def test_only_the_newest_reports_are_kept(place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.lifecycle.passes.pass_records._MOST_REPORTS", 3)
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    conductor = place.conductor()
    ids = [conductor.start(order(ONE + number), "listing").id for number in range(5)]
    assert [report.id for report in PassReports(place.tables).all()] == ids[2:]


def test_a_cron_expression_that_is_none_is_refused_at_the_start(place: LifecyclePlace) -> None:
    with pytest.raises(InvalidInput):
        place.conductor(cron="daily at one")


def test_a_pass_that_is_asked_for_comes_before_the_rounds_and_takes_in_rules_that_were_just_put(
    place: LifecyclePlace,
) -> None:
    place.pool()
    bucket = place.bucket("photos")
    place.tables.put(LIFECYCLE + bucket.uid, rule_set(DAYS).to_json())
    conductor, requests = place.conductor(interval_seconds=10), PassRequests(place.tables)
    pass_id = requests.submit("photos", now=ONE)
    report = conductor.run_once(ONE)
    assert report is not None and (report.id, report.trigger, report.buckets) == (pass_id, "request", 1)
    assert requests.oldest() is None


def test_a_request_waits_while_the_last_pass_is_at_work(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    store.put("a", ONE - 1000)
    conductor, requests = place.conductor(interval_seconds=1000), PassRequests(place.tables)
    place.plan(now=ONE)
    first, second = (requests.submit("photos", now=ONE + number) for number in (1, 2))
    assert conductor.run_once(ONE + 3) is None
    place.finish()
    served = conductor.run_once(ONE + 4)
    assert served is not None and served.id == first
    waiting = requests.oldest()
    assert waiting is not None and waiting.id == second


@pytest.mark.parametrize(
    ("bucket", "engine", "problem"),
    [("plain", "", "plain has no lifecycle rules"), ("", "abacus", "no engine 'abacus'")],
)
def test_a_request_that_cannot_be_served_is_answered_by_its_report(
    place: LifecyclePlace, bucket: str, engine: str, problem: str
) -> None:
    place.pool()
    place.bucket("plain")
    requests = PassRequests(place.tables)
    pass_id = requests.submit(bucket, engine=engine, now=ONE)
    place.conductor().run_once(ONE)
    report = PassReports(place.tables).get(pass_id)
    assert report is not None and report.status is PassStatus.FAILED
    assert problem in report.problem
    assert requests.oldest() is None


def test_a_pass_that_was_killed_is_closed_by_the_next_and_its_request_is_not_served_again(
    place: LifecyclePlace,
) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    reports, requests = PassReports(place.tables), PassRequests(place.tables)
    pass_id = requests.submit(now=ONE)
    reports.put(PassReport(pass_id, "spark", "request", int(ONE * 1e9), 1))
    PassProgress(pass_id, "planning", int(ONE * 1e9), buckets=1).store(place.tables)
    place.tables.put(LOCK, "another-machine/1/1/token", expires_in=60)
    conductor = place.conductor(interval_seconds=1)
    assert [conductor.run_once(ONE + number) for number in range(1, 4)] == [None] * 3  # its lock holds
    place.tables.delete(LOCK)
    assert conductor.run_once(ONE + 5) is not None
    report = reports.get(pass_id)
    assert report is not None and report.status is PassStatus.INTERRUPTED
    assert "planning" in report.problem
    assert PassProgress.load(place.tables) is None
    assert requests.oldest() is None


def test_a_daily_pass_that_was_killed_is_made_up_for_once(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    reports, requests = PassReports(place.tables), PassRequests(place.tables)
    conductor = place.conductor(cron="0 * * * *")
    conductor.run_once(ONE)
    for trigger in ("schedule", "request"):
        killed = PassReport(new_pass_id(int(ONE * 1e9)), "listing", trigger, int(ONE * 1e9), 1)
        reports.put(killed)
        PassProgress(killed.id, "acting", int(ONE * 1e9)).store(place.tables)
        report = conductor.run_once(ONE + 1)
        assert (report is not None) is (trigger == "schedule")
        assert requests.oldest() is None


def test_the_lock_of_a_process_that_is_dead_is_taken_over(place: LifecyclePlace) -> None:
    held = PassLock(place.tables, seconds=60)
    assert held.try_acquire()
    machine, pid, started, token = str(place.tables.get(LOCK)).split("/")
    assert not PassLock(place.tables, seconds=60).try_acquire()
    place.tables.put(LOCK, f"elsewhere{machine}/{pid}/0/{token}", expires_in=60)
    assert not PassLock(place.tables, seconds=60).try_acquire()
    place.tables.put(LOCK, f"{machine}/{pid}/{int(started) - 1}/{token}", expires_in=60)
    assert PassLock(place.tables, seconds=60).try_acquire()


class _Failing:
    """An engine whose passes fail."""

    def __init__(self) -> None:
        self.passes = 0

    def run(self, order: PassOrder, buckets: object, lock: object) -> PassReport:
        self.passes += 1
        begun = PassReport(order.id, "failing", order.trigger, order.now_ns, 1)
        return begun.ended(order.now_ns, PassStatus.FAILED, problem="the disk is full")

    def between(self, now: float) -> None: ...


def test_no_pass_is_begun_without_space_and_its_round_comes_when_there_is_some(place: LifecyclePlace) -> None:
    lacking = ["there are 0 MiB left"]
    chosen = place.settings.model_copy(update={"cron": "0 * * * *"})
    engines = open_engines(place.around(), stop=place.stop)
    conductor = Conductor(place.tables, place.topics, chosen, engines, shortage=lambda: lacking[0])
    lacking[0] = ""
    assert conductor.run_once(ONE) is None
    lacking[0] = "there are 0 MiB left"
    requests = PassRequests(place.tables)
    requests.submit(now=ONE)
    assert conductor.run_once(ONE + 3600) is None
    assert requests.oldest() is not None
    lacking[0] = ""
    assert [conductor.run_once(ONE + 3601 + number) is not None for number in range(3)] == [True, True, False]


@pytest.mark.parametrize(("lacking", "passes"), [("there are 0 MiB left", 2), ("", 1)])
def test_a_daily_pass_that_failed_for_lack_of_space_is_made_up_for_once(
    place: LifecyclePlace, lacking: str, passes: int
) -> None:
    engine, answers = _Failing(), ["", lacking]  # there is space when it begins, and none when it has failed
    chosen = place.settings.model_copy(update={"cron": "0 * * * *", "engine": "failing"})
    conductor = Conductor(
        place.tables, place.topics, chosen, {"failing": engine}, shortage=lambda: answers.pop(0) if answers else ""
    )
    answers.insert(0, "")
    conductor.run_once(ONE)
    for number in range(4):
        conductor.run_once(ONE + 3600 + number)
    assert engine.passes == passes
