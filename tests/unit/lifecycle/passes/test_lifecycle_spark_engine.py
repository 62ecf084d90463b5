"""A pass on Spark from landing to settled cursors, with a store in memory behind the workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any

import pytest
from lifecycle_place import DAYS, LOG, LifecyclePlace, rule_set
from memory_store import MemoryStore
from pyspark.sql import SparkSession

from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.core.records import Bucket, BucketState
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.stop_switch import StopSwitch
from tidegate.lifecycle.buckets.bucket_list import chosen
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.bucket_pass import PassClock
from tidegate.lifecycle.passes.bucket_reading import read_buckets
from tidegate.lifecycle.passes.conductor import Conductor
from tidegate.lifecycle.passes.engine import PassEngine
from tidegate.lifecycle.passes.engines import open_engines
from tidegate.lifecycle.passes.pass_lock import PassLock
from tidegate.lifecycle.passes.pass_records import (
    PassOrder,
    PassProgress,
    PassReport,
    PassReports,
    PassStatus,
    new_pass_id,
)
from tidegate.lifecycle.topics import backlog
from tidegate.ports import Record

SECOND = 1_000_000_000
DAY = 100 * SECOND
START = time.time_ns() - 50 * DAY


@dataclass
class Scene:
    """A bucket in which `old` is due and `new` is not, whose cursors stand where nothing was due yet."""

    place: LifecyclePlace
    store: MemoryStore
    bucket: Bucket
    stop: Flag

    def engine(self, **lifecycle: Any) -> PassEngine:
        return open_engines(self.place.around(engine="spark", **lifecycle), stop=self.stop)["spark"]

    def run(self, engine: PassEngine, now: int, *, trigger: str = "schedule", dry_run: bool = False) -> PassReport:
        order = PassOrder(new_pass_id(now), trigger, now, SECOND, dry_run=dry_run)
        lock = PassLock(self.place.tables, seconds=60)
        assert lock.try_acquire()
        with KeptLease(lock, seconds=60) as kept:
            return engine.run(order, chosen(self.place.tables), kept)

    def frontiers(self) -> set[int]:
        return {cursor.frontier_ns for cursor in CursorStore(self.place.tables).load(self.bucket.uid).values()}

    def keys(self) -> set[str]:
        return {key for key, versions in self.store.versions.items() if versions}

    def put(self, key: str, at_ns: int) -> None:
        made = self.store.put(key, at_ns / SECOND)
        event = Event(
            at_ns, EventKind.PUT, "pool", "photos", self.bucket.uid, "owner", key, size=made.size, etag=made.etag
        )
        self.place.topics.append(LOG, [Record(key, event.to_bytes())])


@pytest.fixture
def scene(place: LifecyclePlace) -> Scene:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    place.tables.put(BucketState.PREFIX + bucket.uid, BucketState("Off").to_json())
    scene = Scene(place, store, bucket, Flag())
    walked(scene, START)
    scene.put("old", START + SECOND)
    scene.put("new", START + 2 * DAY)
    return scene


def walked(scene: Scene, now: int) -> None:
    """As a cold start leaves the cursors, without a store that could be listed."""
    place = scene.place
    (bucket,) = read_buckets(place.tables, place.open_stores(), place.settings, chosen(place.tables), now_ns=now)
    CursorStore(place.tables).save(bucket.uid, bucket.divided(PassClock(now, now, 0, 0, 0, 0, 0)).cursors_after())


@pytest.fixture
def working(scene: Scene) -> Iterator[Callable[[], None]]:
    """Starts an object processor beside the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(scene.place.working())


def test_a_pass_does_what_is_due_and_moves_the_cursors(
    spark: SparkSession, scene: Scene, working: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    working()
    engine = scene.engine()
    report = scene.run(engine, START + 2 * DAY + SECOND)
    assert (report.status, report.landed_events, report.planned, report.outcomes) == (PassStatus.OK, 2, 1, {"DONE": 1})
    (detail,) = report.details
    assert (detail.bucket, detail.planned, detail.walked) == ("photos", {"ExpirationDays": 1}, False)
    assert scene.keys() == {"new"}
    assert scene.frontiers() == {START + 2 * DAY + SECOND}
    assert PassReports(scene.place.tables).get(report.id) == report
    assert PassProgress.load(scene.place.tables) is None
    assert backlog(scene.place.topics) == 0 and scene.place.object_tasks() == []
    (line,) = [record.getMessage() for record in caplog.records if "daily_run" in record.getMessage()]
    assert line.startswith("daily_run: status=ok shards=16 errors=0 ") and "cursor_lag_max=0s" in line
    # Passes in which nothing happens follow each other without a trace.
    idle = [scene.run(engine, START + 2 * DAY + number * SECOND) for number in (2, 3, 4)]
    assert [later.details for later in idle] == [[]] * 3
    assert [kept.id for kept in PassReports(scene.place.tables).all()] == [report.id, idle[-1].id]


@pytest.fixture
def engine_with_late_event(spark: SparkSession, scene: Scene, working: Callable[[], None]) -> PassEngine:
    """After a pass, an event comes that is older than what the pass settled."""
    working()
    engine = scene.engine()
    scene.run(engine, START + 2 * DAY + SECOND)
    scene.put("late", START + DAY // 2)
    return engine


def test_an_event_that_comes_after_its_time_is_not_missed(scene: Scene, engine_with_late_event: PassEngine) -> None:
    engine = engine_with_late_event
    report = scene.run(engine, START + 2 * DAY + 2 * SECOND)
    # What is gone already is looked for, too: this store keeps no log that would tell of it.
    assert (report.status, report.outcomes) == (PassStatus.OK, {"DONE": 1, "NOOP_RESOLVED": 1})
    assert (scene.keys(), scene.frontiers()) == ({"new"}, {START + 2 * DAY + 2 * SECOND})
    assert scene.run(engine, START + 2 * DAY + 3 * SECOND).planned == 0


def test_late_events_are_looked_for_though_the_pass_that_landed_them_did_not_end(
    scene: Scene, engine_with_late_event: PassEngine
) -> None:
    engine = engine_with_late_event
    scene.run(engine, START + 2 * DAY + 2 * SECOND, trigger="request", dry_run=True)
    assert scene.frontiers() == {START + DAY // 2 - 1}
    assert scene.run(engine, START + 2 * DAY + 3 * SECOND).outcomes["DONE"] == 1
    assert scene.keys() == {"new"}


def test_a_dry_run_shows_the_plan_and_changes_nothing(spark: SparkSession, scene: Scene) -> None:
    before = scene.frontiers()
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND, trigger="request", dry_run=True)
    assert (report.status, report.planned, report.outcomes, report.dry_run) == (PassStatus.OK, 1, {}, True)
    assert list((scene.place.data / "passes" / report.id / "plan").glob("*.parquet"))
    assert (scene.frontiers(), scene.place.object_tasks(), scene.keys()) == (before, [], {"old", "new"})


def test_when_its_time_is_over_a_pass_ends_and_the_next_goes_on(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    before = scene.frontiers()
    report = scene.run(scene.engine(max_runtime_minutes=1 / 60), START + 2 * DAY + SECOND)
    assert (report.status, scene.frontiers()) == (PassStatus.TIMEOUT, before)
    assert "longer than" in report.problem
    working()
    while backlog(scene.place.topics):
        time.sleep(0.05)
    later = scene.run(scene.engine(), START + 2 * DAY + 2 * SECOND)
    assert (later.status, scene.keys()) == (PassStatus.OK, {"new"})
    assert scene.frontiers() == {START + 2 * DAY + 2 * SECOND}


def test_a_store_that_refuses_blocks_the_bucket_and_its_lag_shows_it(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    working()
    scene.store.refused["old"] = "AccessDenied"
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)
    assert (report.status, report.outcomes) == (PassStatus.BLOCKED, {"BLOCKED": 1})
    assert report.details[0].lag_seconds == pytest.approx((2 * DAY + SECOND - DAY - SECOND + 1) / SECOND)
    scene.store.refused.clear()
    healed = scene.run(scene.engine(), START + 2 * DAY + 2 * SECOND)
    assert (healed.status, healed.outcomes, scene.keys()) == (PassStatus.OK, {"DONE": 1}, {"new"})


def test_a_pass_that_is_told_to_stop_says_so_and_leaves_the_cursors(spark: SparkSession, scene: Scene) -> None:
    before = scene.frontiers()
    scene.stop.set()
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)
    assert (report.status, scene.frontiers()) == (PassStatus.INTERRUPTED, before)
    assert PassProgress.load(scene.place.tables) is None


def test_a_pass_that_an_operator_stops_leaves_the_cursors_and_what_it_published_is_planned_again(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    before = scene.frontiers()
    switch = StopSwitch(scene.place.tables, scene.place.topics)

    def stop_while_acting() -> None:
        while not backlog(scene.place.topics):
            time.sleep(0.02)
        switch.stop(now_ns=1)

    stopping = threading.Thread(target=stop_while_acting)
    stopping.start()
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)  # nobody carries its tasks out
    stopping.join()
    assert (report.status, scene.frontiers()) == (PassStatus.INTERRUPTED, before)
    assert "lifecycle was stopped" in report.problem
    switch.resume(now_ns=2)
    working()
    while backlog(scene.place.topics):
        time.sleep(0.05)
    assert scene.keys() == {"old", "new"}
    assert [record.outcome for record in scene.place.audits()] == [Outcome.STOPPED]
    again = scene.run(scene.engine(), START + 2 * DAY + 2 * SECOND)
    assert (again.status, again.outcomes, scene.keys()) == (PassStatus.OK, {"DONE": 1}, {"new"})


def test_a_bucket_stopped_by_itself_holds_its_cursors(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    """The pass knows nothing of the stop, which comes when its tasks are published."""
    StopSwitch(scene.place.tables, scene.place.topics).stop("photos", now_ns=1)
    working()
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)
    assert (report.status, report.outcomes, scene.keys()) == (PassStatus.BLOCKED, {"STOPPED": 1}, {"old", "new"})
    assert min(scene.frontiers()) < START + DAY + SECOND


def test_a_rule_that_is_taken_back_and_put_again_during_a_pass_loses_no_deletion(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    key = LIFECYCLE + scene.bucket.uid
    rules = scene.place.tables.get(key)
    assert rules is not None

    def take_back() -> None:
        while not backlog(scene.place.topics):
            time.sleep(0.02)
        scene.place.tables.put(key, rule_set(DAYS.replace(">1<", ">99999999<")).to_json())
        working()

    taking = threading.Thread(target=take_back)
    taking.start()
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)
    taking.join()
    assert (report.status, report.outcomes, scene.keys()) == (PassStatus.OK, {"NOOP_RESOLVED": 1}, {"old", "new"})
    assert [record.reason for record in scene.place.audits()] == ["rule changed"]
    scene.place.tables.put(key, rules)
    again = scene.run(scene.engine(), START + 2 * DAY + 2 * SECOND)
    assert (again.outcomes, scene.keys()) == ({"DONE": 1}, {"new"})


def test_a_bucket_that_cannot_be_listed_is_a_problem_of_its_own(
    spark: SparkSession, scene: Scene, working: Callable[[], None]
) -> None:
    working()
    scene.place.bucket("unreachable", rule_set(DAYS))
    report = scene.run(scene.engine(), START + 2 * DAY + SECOND)
    found = {detail.bucket: detail for detail in report.details}
    assert report.status is PassStatus.BLOCKED
    assert found["unreachable"].problem and found["unreachable"].lag_seconds is None
    assert found["unreachable"].recoveries == {"cold-start": 16}
    assert (found["photos"].problem, found["photos"].outcomes) == ("", {"DONE": 1})
    assert scene.keys() == {"new"}


def test_without_java_the_report_says_what_to_do_and_the_log_says_it_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    engine = scene.engine()
    reports = [scene.run(engine, START + number * SECOND) for number in range(3)]
    assert {report.status for report in reports} == {PassStatus.FAILED}
    assert "install Java" in reports[0].problem
    assert len([record for record in caplog.records if "install Java" in record.getMessage()]) == 1
    assert [kept.id for kept in PassReports(scene.place.tables).all()] == [reports[-1].id]


def test_without_a_bucket_to_look_after_nothing_is_started(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    scene.place.registry.delete_bucket("photos")
    scene.place.tables.delete(LIFECYCLE + scene.bucket.uid)
    report = scene.run(scene.engine(), START)
    assert (report.status, report.buckets) == (PassStatus.OK, 0)
    assert PassReports(scene.place.tables).all() == []
    asked = scene.run(scene.engine(), START, trigger="request")
    assert asked.status is PassStatus.OK and PassReports(scene.place.tables).get(asked.id) == asked


def test_the_conductor_hands_passes_to_the_engine_that_is_chosen(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    settings = scene.place.settings.model_copy(update={"engine": "spark", "interval_seconds": 1.0})
    conductor = Conductor(scene.place.tables, scene.place.topics, settings, {"spark": scene.engine()})
    report = conductor.run_once(START / SECOND)
    assert report is not None and (report.engine, report.status) == ("spark", PassStatus.FAILED)
