"""What a pass does in a bucket, and how its cursors follow from how that ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set

from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.cursors import CURSORS, LISTED_LATE_NS, Cursor
from tidegate.core.lifecycle.rules import ActionKind, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import AuditRecord, ObjectTask, Outcome
from tidegate.core.records import BucketState
from tidegate.core.shards import SHARDS, shard
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.buckets.bucket_list import BucketList, ListedBucket
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.bucket_pass import BucketOutcome, BucketPass, PassClock
from tidegate.lifecycle.passes.bucket_reading import read_buckets
from tidegate.lifecycle.passes.outcomes import OutcomeTracker
from tidegate.pipeline.plan.bucket_plan import BucketPlan

SECOND = 1_000_000_000
DAY = 100 * SECOND  # as in `LifecyclePlace`
NOW = 1_800_000_000 * SECOND
WALKED_UNTIL = NOW - LISTED_LATE_NS
EVERYWHERE = (1 << SHARDS) - 1
MARKERS = "<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"


def clock(now: int = NOW, **times: int) -> PassClock:
    others = {"late_ns": 0, "log_horizon_ns": 0, "retention_ns": 0, "allowance_ns": 0, "walker_interval_ns": 0}
    return PassClock(now_ns=now, landed_ns=now, **(others | times))


def known(place: LifecyclePlace, *, now: int = NOW) -> BucketPass:
    listed = BucketList(place.tables).all()
    (found,) = read_buckets(place.tables, place.open_stores(), place.settings, listed, now_ns=now)
    return found


def made(place: LifecyclePlace, rules: RuleSet, *, known_since: int = 0) -> str:
    """A bucket in a pool, as the gateway notes it down; its uid."""
    place.pool()
    uid = place.bucket("photos", rules).uid
    place.tables.put(BucketState.PREFIX + uid, BucketState("Off", known_since).to_json())
    return uid


def passed(
    place: LifecyclePlace, times: PassClock, ending: BucketOutcome | None = None, *, is_stuck: bool = False
) -> BucketPass:
    """One pass in the only bucket."""
    divided = known(place).divided(times, changed_ns=0)
    plan = BucketPlan(problem="it cannot be listed" if is_stuck else "")
    bucket = replace(divided, plan=plan, outcome=ending or BucketOutcome())
    CursorStore(place.tables).save(bucket.uid, bucket.cursors_after())
    return bucket


def cursors(place: LifecyclePlace, uid: str) -> dict[int, Cursor]:
    return CursorStore(place.tables).load(uid)


def test_a_new_bucket_is_walked_for_everything_and_then_replayed(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS, MARKERS))
    first = passed(place, clock())
    assert first.recoveries == {"cold-start": SHARDS}
    assert set(first.walked_for().values()) == {EVERYWHERE} and len(first.walked_for()) == 2
    assert not first.is_replayed
    second = passed(place, clock(NOW + DAY))
    assert (second.recoveries, second.is_walked, second.is_replayed) == ({}, False, True)
    assert second.after_ns() == dict.fromkeys(range(SHARDS), WALKED_UNTIL)
    assert [pair.action.kind for pair in second.replayed_for()] == [ActionKind.EXPIRATION_DAYS]
    assert {cursor.frontier_ns for cursor in cursors(place, uid).values()} == {NOW + DAY}


def test_trouble_in_one_shard_holds_up_that_shard_only(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS))
    passed(place, clock())
    passed(place, clock(NOW + DAY), BucketOutcome(unsettled={3: NOW + 7}))
    frontiers = {where: cursor.frontier_ns for where, cursor in cursors(place, uid).items()}
    assert frontiers.pop(3) == NOW + 6
    assert set(frontiers.values()) == {NOW + DAY}


def test_what_was_due_long_ago_holds_the_cursor_where_it_is(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS))
    passed(place, clock())
    passed(place, clock(NOW + DAY), BucketOutcome(unsettled={3: 1}))
    assert cursors(place, uid)[3].frontier_ns == WALKED_UNTIL


@pytest.mark.parametrize("walks", [True, False])
def test_a_bucket_that_is_stuck_stays_where_it_is_and_shows_a_lag(place: LifecyclePlace, walks: bool) -> None:
    uid = made(place, rule_set(DAYS))
    if not walks:
        passed(place, clock())
    work = passed(place, clock(NOW + DAY), is_stuck=True)
    if walks:
        assert cursors(place, uid) == {}
        assert work.report({}).lag_seconds is None
    else:
        assert {cursor.frontier_ns for cursor in cursors(place, uid).values()} == {WALKED_UNTIL}
        assert work.report(cursors(place, uid)).lag_seconds == (DAY + LISTED_LATE_NS) / SECOND


def test_something_locked_brings_the_walker_back_a_day_later_to_its_shard(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS))
    passed(place, clock())
    passed(place, clock(NOW + DAY), BucketOutcome(revisited=frozenset({5})))
    assert not passed(place, clock(NOW + 2 * DAY - 1)).is_walked
    revisit = passed(place, clock(NOW + 2 * DAY))
    assert set(revisit.walked_for().values()) == {1 << 5}
    assert set(revisit.replayed_for().values()) == {EVERYWHERE - (1 << 5)}
    assert not passed(place, clock(NOW + 9 * DAY)).is_walked


def test_a_bucket_of_which_the_log_does_not_know_everything_is_walked_until_it_does(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS), known_since=NOW - 10)
    first = passed(place, clock())
    assert not first.is_log_complete
    steady = passed(place, clock(NOW + DAY - 11))
    assert (steady.recoveries, steady.is_walked, steady.is_replayed) == ({}, True, False)
    flip = passed(place, clock(NOW + DAY + LISTED_LATE_NS))
    assert flip.recoveries == {"partition-flip": SHARDS}
    replayed = passed(place, clock(NOW + 2 * DAY))
    assert (replayed.is_walked, replayed.is_replayed) == (False, True)


def test_a_horizon_before_the_bucket_was_made_is_none(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS))
    assert known(place).divided(clock(log_horizon_ns=SECOND)).is_log_complete
    assert not known(place).divided(clock(log_horizon_ns=SECOND + 1)).is_log_complete


def test_changes_are_only_asked_for_where_they_decide(place: LifecyclePlace) -> None:
    made(place, rule_set(MARKERS))
    assert not known(place).divided(clock()).depends_on_changes(clock())  # a cold start walks in any case
    passed(place, clock())
    later = clock(NOW + 1)
    work = known(place).divided(later)
    assert work.is_walked and work.depends_on_changes(later)
    assert not known(place).divided(later, changed_ns=NOW).is_walked
    assert known(place).divided(later, changed_ns=NOW + 1).is_walked


def test_a_clock_that_was_set_back_deletes_nothing_and_does_not_stick(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS))
    passed(place, clock(NOW + 100 * DAY))
    back = passed(place, clock())
    assert (back.is_walked, back.is_replayed) == (False, False)
    assert {cursor.frontier_ns for cursor in cursors(place, uid).values()} == {NOW}
    assert passed(place, clock(NOW + DAY)).is_replayed


def test_damaged_cursors_are_a_cold_start(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS))
    place.tables.put(CURSORS + uid, "}{")
    assert passed(place, clock()).recoveries == {"cold-start": SHARDS}
    assert len(cursors(place, uid)) == SHARDS


# --- the snapshot --------------------------------------------------------------------------------


def test_the_store_is_asked_for_the_versioning_of_a_bucket_once(place: LifecyclePlace) -> None:
    store = place.pool()
    uid = place.bucket("photos", rule_set(DAYS)).uid
    store.state = Versioning.SUSPENDED
    first = known(place)
    assert (first.bucket_context.versioning, first.known_since_ns) == (Versioning.SUSPENDED, NOW)
    store.state = Versioning.OFF
    assert known(place, now=NOW + 1).bucket_context.versioning is Versioning.SUSPENDED
    place.tables.put(BucketState.PREFIX + uid, BucketState("Enabled").to_json())
    assert known(place).bucket_context.versioning is Versioning.ENABLED


def test_a_bucket_whose_pool_is_gone_is_a_problem_of_its_own(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS))
    lost = place.bucket("lost", rule_set(DAYS))
    bucket = replace(lost, pool="gone")
    place.tables.put(f"bk:{bucket.name}", bucket.to_json())
    listed = BucketList(place.tables).all()
    found = read_buckets(place.tables, place.open_stores(), place.settings, listed, now_ns=NOW)
    problems = {one.bucket.name: one.divided(clock()).told_problem for one in found}
    assert problems["photos"] == "" and "gone" in problems["lost"]


def test_a_bucket_with_a_problem_keeps_its_cursors(place: LifecyclePlace) -> None:
    uid = made(place, rule_set(DAYS))
    passed(place, clock())
    bucket = replace(known(place), problem="its pool is gone").divided(clock(NOW + DAY))
    assert (bucket.is_walked, bucket.is_replayed, bucket.cursors_after()) == (False, False, cursors(place, uid))
    assert bucket.report(bucket.cursors).problem == "its pool is gone"


def test_a_bucket_of_which_tasks_are_not_finished_is_stuck(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS))
    bucket = replace(known(place).divided(clock()), published=2, outcome=BucketOutcome({"DONE": 1}))
    assert bucket.is_stuck and bucket.cursors_after() == {}
    assert not replace(bucket, outcome=BucketOutcome({"DONE": 2})).is_stuck


def test_a_bucket_that_was_made_anew_meanwhile_is_not_in_the_snapshot(place: LifecyclePlace) -> None:
    made(place, rule_set(DAYS))
    listed = [ListedBucket("owner", "another-uid", "photos")]
    assert not list(read_buckets(place.tables, place.open_stores(), place.settings, listed, now_ns=NOW))


# --- settling ------------------------------------------------------------------------------------


def record(uid: str, key: str, outcome: Outcome, *, became_due: int = 5, pass_id: str = "pass") -> AuditRecord:
    task = ObjectTask(
        Effect.DELETE, "owner", "photos", key, "", uid, pass_id, ActionKind.EXPIRATION_DAYS, "r0", "r0/x", 1, became_due
    )
    return AuditRecord(1, task, outcome)


def test_the_audit_trail_is_counted_once_however_often_it_is_looked_at(place: LifecyclePlace) -> None:
    trail = AuditTrail(place.topics)
    trail.append([record("u", "before", Outcome.DONE)])
    tracker = OutcomeTracker(place.topics, "pass", trail.ends())
    assert tracker.catch_up() == 0
    trail.append([record("u", f"k{number}", Outcome.DONE) for number in range(2500)])
    trail.append([record("u", "other", Outcome.DONE, pass_id="another")])
    assert tracker.catch_up() == tracker.catch_up() == 2500
    trail.append([record("v", "a", Outcome.BLOCKED, became_due=9), record("v", "a", Outcome.RETRY_LATER, became_due=7)])
    trail.append([record("v", "b", Outcome.SKIPPED_OBJECT_LOCK), record("v", "c", Outcome.NOOP_RESOLVED)])
    trail.append([record("v", "d", Outcome.SKIPPED_REPLICATION)])
    assert tracker.catch_up() == 2505
    assert tracker.of("u") == BucketOutcome({"DONE": 2500})
    assert tracker.of("v") == BucketOutcome(
        {
            "BLOCKED": 1,
            "RETRY_LATER": 1,
            "SKIPPED_OBJECT_LOCK": 1,
            "SKIPPED_REPLICATION": 1,
            "NOOP_RESOLVED": 1,
        },
        {shard("photos", "a"): 7},
        frozenset({shard("photos", "b"), shard("photos", "d")}),
    )
    assert tracker.of("w") == BucketOutcome()
