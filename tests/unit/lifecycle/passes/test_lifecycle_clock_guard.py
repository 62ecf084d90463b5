"""A clock that jumps begins no pass, until it is back or an operator confirms it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set

from tidegate.core.errors import Conflict
from tidegate.lifecycle.passes.clock_guard import SEEN, ClockGuard, clock_problems
from tidegate.lifecycle.passes.pass_records import PassOrder, PassRequests, PassStatus, new_pass_id
from tidegate.lifecycle.queries.control import LifecycleControl
from tidegate.lifecycle.queries.pass_inspection import PassInspector

ONE = 1_800_000_000.0
DAY = 86_400.0
SECOND = 1_000_000_000


@pytest.fixture
def ruled(place: LifecyclePlace) -> LifecyclePlace:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    return place


def test_a_jump_ahead_begins_no_pass_and_when_it_is_back_passes_go_on(
    ruled: LifecyclePlace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    conductor = ruled.conductor(interval_seconds=10)
    assert conductor.run_once(ONE) is not None
    jumped = ONE + 30 * DAY
    assert [conductor.run_once(jumped + number) for number in range(3)] == [None] * 3
    told = [record.getMessage() for record in caplog.records if "no pass begins" in record.getMessage()]
    assert len(told) == 1 and "30.0 days after" in told[0] and "confirm-clock" in told[0]
    (problem,) = clock_problems(ruled.tables).values()
    assert "30.0 days after" in problem
    order = PassOrder(new_pass_id(int(jumped * 1e9)), "request", int(jumped * 1e9), 0)
    with pytest.raises(Conflict, match=r"30\.0 days after"):
        conductor.start(order, "listing")
    assert conductor.run_once(ONE + 20) is not None
    assert clock_problems(ruled.tables) == {}


def test_a_weekend_does_not_matter_and_a_month_must_be_confirmed_once(ruled: LifecyclePlace) -> None:
    assert ruled.conductor(interval_seconds=10).run_once(ONE) is not None
    assert ruled.conductor(interval_seconds=10).run_once(ONE + 4 * DAY) is not None
    later = ruled.conductor(interval_seconds=10)
    assert later.run_once(ONE + 34 * DAY) is None
    ClockGuard(ruled.tables, ruled.settings).confirm(int((ONE + 34 * DAY) * 1e9))
    assert later.run_once(ONE + 34 * DAY + 1) is not None
    assert later.run_once(ONE + 34 * DAY + 20) is not None


def test_rounds_that_come_once_a_month_are_no_jump(ruled: LifecyclePlace) -> None:
    """The time is seen while the service runs, not only when a pass begins."""
    conductor = ruled.conductor(cron="0 0 1 * *")
    begun = []
    for hour in range(0, 32 * 24, 6):
        report = conductor.run_once(ONE + hour * 3600)
        begun += [report] if report is not None else []
    assert len(begun) == 1


def test_a_clock_far_behind_begins_no_pass_and_is_not_taken_for_the_time(ruled: LifecyclePlace) -> None:
    """Such as that of a machine that starts without a battery: when it is put right, nothing has to be confirmed."""
    conductor = ruled.conductor(interval_seconds=10)
    assert conductor.run_once(ONE) is not None
    assert conductor.run_once(100.0) is None and conductor.run_once(200.0) is None
    assert "before a time" in next(iter(clock_problems(ruled.tables).values()))
    assert conductor.run_once(ONE + DAY) is not None


def test_a_dry_run_is_made_by_any_clock(ruled: LifecyclePlace) -> None:
    conductor, requests = ruled.conductor(interval_seconds=1000), PassRequests(ruled.tables)
    assert conductor.run_once(ONE) is not None
    waits, dry = requests.submit(now=ONE), requests.submit(dry_run=True, now=ONE + 1)
    answered = conductor.run_once(ONE + 30 * DAY)
    assert answered is not None and (answered.id, answered.status) == (dry, PassStatus.OK)
    oldest = requests.oldest()
    assert oldest is not None and oldest.id == waits


def test_without_a_limit_every_clock_is_believed(ruled: LifecyclePlace) -> None:
    conductor = ruled.conductor(interval_seconds=10, clock_jump_hours=0)
    assert conductor.run_once(ONE) is not None
    assert conductor.run_once(ONE + 1000 * DAY) is not None


def test_operators_see_it_cannot_ask_for_a_pass_and_confirm_it(ruled: LifecyclePlace, tmp_path: Path) -> None:
    control = LifecycleControl(ruled.tables, ruled.topics, ruled.settings)
    passes = PassInspector(ruled.tables, ruled.settings, tmp_path)
    assert passes.submit().id
    ruled.tables.put(SEEN, str(int(ONE - 300 * DAY) * SECOND))
    with pytest.raises(Conflict, match="confirm-clock"):
        passes.submit()
    assert passes.submit(dry_run=True).id and "days after" in passes.current().refused
    seen = control.confirm_clock().clock_seen
    assert seen is not None and passes.current().refused == ""
    assert passes.submit().id


def test_a_problem_is_forgotten_when_nobody_renews_it(ruled: LifecyclePlace) -> None:
    """A machine that is gone has no clock."""
    now = 100.0
    guard = ClockGuard(ruled.tables, ruled.settings, monotonic=lambda: now)
    guard.observe(int(ONE * 1e9))
    assert guard.observe(int((ONE + 30 * DAY) * 1e9))
    for key in clock_problems(ruled.tables):
        ruled.tables.delete(f"lifecycle/clock-problems/{key}")
    now += 5
    guard.observe(int((ONE + 30 * DAY) * 1e9))
    assert clock_problems(ruled.tables) == {}
    now += 6
    guard.observe(int((ONE + 30 * DAY) * 1e9))
    assert len(clock_problems(ruled.tables)) == 1
