"""Partition, cursors, recovery and the heartbeat line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_cases import (
    DAY,
    MARKER_CLEANUP,
    MIDNIGHT,
    SECOND,
    abort,
    expiration,
    noncurrent,
    noncurrent_transition,
    rule,
    rule_sets,
    rules,
    transition,
)

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.cursors import (
    LISTED_LATE_NS,
    Clock,
    Recovery,
    Walk,
    WalkResult,
    advanced,
    cursors_from_json,
    cursors_to_json,
    plan_shard,
    recovery,
    set_back,
    walker_due,
)
from tidegate.core.lifecycle.heartbeat import duration, greatest_lag_ns, greatest_walk_age_ns, heartbeat
from tidegate.core.lifecycle.partition import partition
from tidegate.core.lifecycle.rules import TransitionMinimum
from tidegate.core.shards import SHARDS

HOUR = 3600 * SECOND
NOW = MIDNIGHT + 100 * DAY
# After the first pass the frontier is at NOW: the walk was as late as listings may be.
WALKED = NOW + LISTED_LATE_NS
CLOCK = Clock(now_ns=WALKED, landed_ns=NOW)
EXPIRE = rules(rule(expiration(30)))
EXPIRE_SOONER = rules(rule(expiration(29)))
BOTH = rules(rule(expiration(30)), rule(expiration(date=0), id="dated"))
LATER = NOW // SECOND + 86_400


def parts_of(rule_set, **options):
    return partition(rule_set, **{"day_seconds": 86_400, **options})


def kinds(pairs):
    return [pair.action.kind.value for pair in pairs]


def passed(cursor, rule_set, clock=CLOCK, *, walked=WalkResult.DONE, settled=None, interval=0, **options):
    """The cursor after one pass, and the plan of that pass."""
    parts = parts_of(rule_set, **options)
    plan = plan_shard(cursor, parts, clock, walker_interval_ns=interval)
    settled = plan.until_ns if settled is None else settled
    result = walked if plan.walk is not Walk.NONE else WalkResult.NONE
    moved = advanced(cursor, plan, parts, clock, bucket_uid="u", shard=3, walked=result, settled_until_ns=settled)
    return moved, plan


def started(rule_set, clock=CLOCK, **options):
    return passed(None, rule_set, clock, **options)[0]


def at(now, landed=None, horizon=0):
    return Clock(now_ns=now, landed_ns=now if landed is None else landed, horizon_ns=horizon)


def test_what_follows_an_event_is_replayed_and_what_depends_on_dates_or_siblings_is_walked():
    every = rules(
        rule(
            expiration(1),
            expiration(date=0),
            MARKER_CLEANUP,
            noncurrent(1),
            noncurrent(1, newer=1),
            abort(1),
            transition(1),
            transition(date=0),
            noncurrent_transition(1),
            noncurrent_transition(1, newer=1),
        ),
        rule(expiration(1), enabled=False),
    )
    parts = parts_of(every)
    assert kinds(parts.replay) == [
        "ExpirationDays",
        "NoncurrentDays",
        "AbortIncompleteMultipartUpload",
        "TransitionDays",
        "NoncurrentTransitionDays",
    ]
    assert kinds(parts.walk) == [
        "ExpirationDate",
        "ExpiredObjectDeleteMarker",
        "NewerNoncurrentVersions",
        "TransitionDate",
        "NoncurrentTransitionDays",
    ]


@pytest.mark.parametrize(("retention", "replayed"), [(31 * DAY - 1, 0), (31 * DAY, 1), (31 * DAY + 1, 1), (None, 1)])
def test_a_rule_that_outlasts_the_log_is_walked_with_the_rounding_to_midnight_counted_in(retention, replayed):
    parts = parts_of(EXPIRE, retention_ns=retention)
    assert (len(parts.replay), len(parts.walk)) == (replayed, 1 - replayed)
    assert bool(parts.promoted_hash) is not bool(replayed)
    assert parts.longest_wait_ns == (31 * DAY if replayed else 0)


def test_the_time_until_the_next_pass_must_fit_into_the_log_too():
    assert parts_of(EXPIRE, retention_ns=32 * DAY, allowance_ns=DAY).replay
    assert not parts_of(EXPIRE, retention_ns=32 * DAY, allowance_ns=DAY + 1).replay


def test_a_shortened_day_shortens_the_wait():
    assert parts_of(EXPIRE, day_seconds=10).longest_wait_ns == 300 * SECOND


def test_the_hash_of_replayed_rules_ignores_names_order_and_the_partition():
    one, other = rule(expiration(1), id="a"), rule(noncurrent(2), id="b")
    base = parts_of(rules(one, other))
    assert base.replay_hash == parts_of(rules(replace(other, id="z"), one)).replay_hash
    assert base.replay_hash == parts_of(rules(one, other), retention_ns=0).replay_hash
    assert base.replay_hash == parts_of(rules(one, other, rule(MARKER_CLEANUP))).replay_hash


def test_the_hash_of_replayed_rules_follows_what_they_do():
    hashes = {
        parts_of(rules(rule(expiration(1)))).replay_hash,
        parts_of(rules(rule(expiration(2)))).replay_hash,
        parts_of(rules(rule(expiration(1), prefix="a"))).replay_hash,
        parts_of(rules(rule(expiration(1))), day_seconds=10).replay_hash,
        parts_of(rules(rule(transition(1)))).replay_hash,
        parts_of(rules(rule(transition(1)), minimum=TransitionMinimum.VARIES)).replay_hash,
        parts_of(rules(rule(MARKER_CLEANUP))).replay_hash,
    }
    assert len(hashes) == 7
    assert "" in hashes


def test_a_cold_start_walks_for_everything_and_then_replays_from_there():
    cursor, plan = passed(None, BOTH)
    assert (plan.recovery, plan.walk, plan.replays) == (Recovery.COLD_START, Walk.RECOVERY, False)
    assert (cursor.frontier_ns, cursor.ts_ns, cursor.last_walked_ns) == (NOW, NOW, WALKED)
    after, plan = passed(cursor, BOTH, at(NOW + HOUR), interval=DAY)
    assert (plan.recovery, plan.walk, plan.replays) == (None, Walk.NONE, True)
    assert (plan.after_ns, plan.until_ns) == (NOW, NOW + HOUR)
    assert (after.frontier_ns, after.last_walked_ns) == (NOW + HOUR, WALKED)


@pytest.mark.parametrize("walked", [WalkResult.BLOCKED, WalkResult.NONE])
def test_a_cold_start_that_did_not_succeed_leaves_no_cursor(walked):
    assert passed(None, BOTH, walked=walked)[0] is None


def test_an_edited_rule_walks_for_everything_again():
    cursor = started(EXPIRE)
    edited, plan = passed(cursor, rules(rule(expiration(29))), at(NOW + HOUR))
    assert (plan.recovery, plan.walk, plan.replays) == (Recovery.RULE_EDIT, Walk.RECOVERY, False)
    assert edited.rule_set_hash != cursor.rule_set_hash
    assert passed(edited, rules(rule(expiration(29))), at(NOW + 2 * HOUR))[1].recovery is None


def test_a_location_that_comes_to_serve_a_class_is_like_an_edited_rule():
    moves = rules(rule(expiration(30)), rule(transition(1, "GLACIER"), id="moves"))
    without, served = parts_of(moves, classes=()), parts_of(moves, classes=("GLACIER",))
    assert (without.replay_hash, len(without.replay)) == (parts_of(EXPIRE).replay_hash, 1)
    assert len(served.replay) == 2 and served.replay_hash != without.replay_hash


def test_a_recovery_that_is_blocked_is_tried_again():
    cursor = started(EXPIRE)
    left, _ = passed(cursor, rules(rule(expiration(29))), at(NOW + HOUR), walked=WalkResult.BLOCKED)
    assert left == cursor
    assert passed(left, rules(rule(expiration(29))), at(NOW + 2 * HOUR))[1].recovery is Recovery.RULE_EDIT


def test_a_rename_is_no_edit():
    assert passed(started(EXPIRE), rules(rule(expiration(30), id="new")), at(NOW + HOUR))[1].recovery is None


def test_a_shorter_retention_flips_the_partition():
    cursor = started(EXPIRE, retention_ns=40 * DAY)
    _, plan = passed(cursor, EXPIRE, at(NOW + HOUR), retention_ns=20 * DAY)
    assert (plan.recovery, plan.walk) == (Recovery.PARTITION_FLIP, Walk.RECOVERY)


@pytest.mark.parametrize(("horizon", "reason"), [(-1, None), (0, None), (1, Recovery.BEHIND_HORIZON)])
def test_a_cursor_is_too_old_when_an_event_it_needs_may_have_left_the_log(horizon, reason):
    clock = at(NOW + 50 * DAY, horizon=NOW - 31 * DAY + horizon)
    assert recovery(started(EXPIRE), parts_of(EXPIRE), clock) is reason


def test_a_complete_log_has_no_horizon():
    assert recovery(replace(started(EXPIRE), frontier_ns=0), parts_of(EXPIRE), at(NOW)) is None


def test_a_bucket_whose_rules_are_all_gone_walks_and_replays_nothing():
    cursor, plan = passed(started(EXPIRE), rules(), at(NOW + HOUR))
    assert (plan.walk, plan.replays) == (Walk.NONE, False)
    assert (cursor.rule_set_hash, cursor.frontier_ns) == ("", NOW + HOUR - LISTED_LATE_NS)


def test_a_bucket_that_is_only_walked_replays_nothing_and_shows_no_lag():
    dated = rules(rule(expiration(date=0)))
    cursor, plan = passed(started(dated), dated, at(NOW + HOUR))
    assert (plan.walk, plan.replays, cursor.frontier_ns) == (Walk.STEADY, False, NOW + HOUR)


def test_the_frontier_stops_before_what_is_not_settled():
    cursor = started(EXPIRE)
    blocked, plan = passed(cursor, EXPIRE, at(NOW + DAY), settled=NOW + HOUR - 1)
    assert blocked.frontier_ns == NOW + HOUR - 1
    _, again = passed(blocked, EXPIRE, at(NOW + 2 * DAY))
    assert (again.after_ns, again.until_ns) == (NOW + HOUR - 1, NOW + 2 * DAY)
    assert plan.until_ns == NOW + DAY


def test_the_frontier_never_passes_what_has_been_landed():
    cursor, plan = passed(started(EXPIRE), EXPIRE, at(NOW + DAY, landed=NOW + HOUR))
    assert plan.until_ns == cursor.frontier_ns == cursor.ts_ns == NOW + HOUR


def test_a_clock_that_is_set_back_takes_the_frontier_with_it():
    cursor, plan = passed(started(EXPIRE, at(NOW + 365 * DAY)), EXPIRE, at(NOW))
    assert (plan.recovery, plan.replays) == (None, False)
    assert cursor.frontier_ns == NOW
    assert passed(cursor, EXPIRE, at(NOW + HOUR))[1].replays


def test_an_event_older_than_the_frontier_sets_it_back_and_a_newer_one_does_not():
    known = {3: started(EXPIRE, at(NOW + DAY))}
    frontier = known[3].frontier_ns
    assert set_back(known, frontier + 1) == known
    (late,) = set_back(known, NOW + HOUR).values()
    assert late == replace(known[3], frontier_ns=NOW + HOUR - 1)
    assert passed(late, EXPIRE, at(NOW + DAY))[1].after_ns == NOW + HOUR - 1


@pytest.mark.parametrize(
    ("since", "interval", "due"),
    [(HOUR - 1, HOUR, False), (HOUR, HOUR, True), (0, 0, True), (0, HOUR, False), (-1, HOUR, True)],
)
def test_the_walker_waits_for_its_interval_but_not_for_a_clock_that_was_set_back(since, interval, due):
    assert walker_due(started(BOTH), parts_of(BOTH), WALKED + since, interval) is due


def test_the_walker_does_not_wait_where_its_rules_changed():
    edited = rules(rule(expiration(30)), rule(expiration(date=86_400), id="dated"))
    _, plan = passed(started(BOTH), edited, at(NOW + 1), interval=DAY)
    assert (plan.recovery, plan.walk) == (None, Walk.STEADY)


def test_a_walk_that_is_blocked_is_due_again():
    blocked, _ = passed(started(BOTH), BOTH, at(NOW + DAY), interval=DAY, walked=WalkResult.BLOCKED)
    assert blocked.last_walked_ns == WALKED
    assert passed(blocked, BOTH, at(WALKED + DAY + 1), interval=DAY)[1].walk is Walk.STEADY


def test_a_bucket_without_rules_for_the_walker_is_never_walked():
    assert passed(started(EXPIRE), EXPIRE, at(NOW + 99 * DAY))[1].walk is Walk.NONE


@given(rule_sets(), st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 3), st.booleans()), max_size=6))
def test_the_windows_of_replay_leave_no_gap_and_never_reach_into_the_future(rule_set, passes):
    cursor = started(rule_set, at(NOW))
    done = cursor.frontier_ns
    now = NOW
    for step, lag, blocked in passes:
        now += step * HOUR
        clock = at(now, landed=now - lag * HOUR)
        parts = parts_of(rule_set)
        plan = plan_shard(cursor, parts, clock, walker_interval_ns=DAY)
        assert plan.recovery is None
        assert plan.after_ns == done
        assert plan.until_ns <= min(clock.now_ns, clock.landed_ns)
        settled = plan.after_ns if blocked else plan.until_ns
        cursor = advanced(
            cursor, plan, parts, clock, bucket_uid="u", shard=0, walked=WalkResult.NONE, settled_until_ns=settled
        )
        assert cursor.frontier_ns <= max(settled, plan.until_ns)
        done = cursor.frontier_ns


@pytest.mark.parametrize("walk", [Walk.RECOVERY, Walk.STEADY, Walk.REVISIT])
def test_while_a_walk_is_blocked_the_lag_grows(walk):
    cursor = replace(started(BOTH), revisit_ns=NOW + 1 if walk is Walk.REVISIT else 0)
    rule_set = BOTH if walk is not Walk.RECOVERY else EXPIRE_SOONER
    blocked, plan = passed(cursor, rule_set, at(NOW + DAY), walked=WalkResult.BLOCKED)
    assert plan.walk is walk
    assert blocked.frontier_ns == NOW


def test_a_shard_with_something_locked_is_walked_for_every_action_when_its_time_comes():
    parts, clock = parts_of(EXPIRE), at(NOW + HOUR)
    plan = plan_shard(started(EXPIRE), parts, clock, walker_interval_ns=0)
    options = {"bucket_uid": "u", "shard": 3, "walked": WalkResult.NONE, "settled_until_ns": plan.until_ns}
    locked = advanced(started(EXPIRE), plan, parts, clock, revisit_ns=NOW + DAY, **options)
    again = advanced(locked, plan, parts, clock, revisit_ns=NOW + 9 * DAY, **options)
    assert locked.revisit_ns == again.revisit_ns == NOW + DAY
    assert passed(locked, EXPIRE, at(NOW + DAY - 1))[1].walk is Walk.NONE
    seen, plan = passed(locked, EXPIRE, at(NOW + DAY))
    assert (plan.recovery, plan.walk, plan.replays) == (None, Walk.REVISIT, False)
    assert (seen.revisit_ns, seen.frontier_ns) == (0, NOW + DAY - LISTED_LATE_NS)


def test_a_clock_that_was_set_back_does_not_put_a_visit_off():
    cursor = replace(started(EXPIRE, at(NOW + 365 * DAY)), revisit_ns=NOW + 366 * DAY)
    assert passed(cursor, EXPIRE, at(NOW))[1].walk is Walk.REVISIT


@pytest.mark.parametrize(
    ("actions", "changed", "elapsed", "walks"),
    [
        # A date that has not come, or that the last walk has seen already.
        ([expiration(date=LATER)], True, 1, False),
        ([expiration(date=LATER)], False, 2 * DAY, True),
        ([expiration(date=0)], False, 2 * DAY, False),
        ([expiration(date=0)], True, 1, True),
        ([transition(date=0)], False, DAY, False),
        # What depends on the other versions of a key changes with the bucket.
        ([MARKER_CLEANUP], False, 99 * DAY, False),
        ([MARKER_CLEANUP], True, 1, True),
        # Days go by.
        ([noncurrent(1, newer=2)], False, 1, True),
        ([expiration(date=0), noncurrent(1, newer=2)], False, 1, True),
    ],
)
def test_a_bucket_is_walked_again_only_if_something_can_have_become_due(actions, changed, elapsed, walks):
    rule_set = rules(rule(*actions))
    clock = replace(at(NOW + elapsed), changed_ns=NOW + 1 if changed else NOW)
    assert passed(started(rule_set), rule_set, clock)[1].walk is (Walk.STEADY if walks else Walk.NONE)


def test_where_nothing_is_known_of_changes_the_bucket_is_walked():
    rule_set = rules(rule(MARKER_CLEANUP))
    assert passed(started(rule_set), rule_set, at(NOW + 1))[1].walk is Walk.STEADY


def test_a_rule_that_the_log_does_not_reach_back_for_is_walked_every_time():
    options = {"retention_ns": DAY}
    clock = replace(at(NOW + 1), changed_ns=NOW - 99 * DAY)
    assert passed(started(EXPIRE, **options), EXPIRE, clock, **options)[1].walk is Walk.STEADY


def test_the_cursors_of_a_bucket_are_stored_together():
    ahead, behind = started(BOTH), replace(started(BOTH), frontier_ns=7, revisit_ns=9)
    cursors = {shard: replace(behind if shard == 5 else ahead, shard=shard) for shard in range(SHARDS)}
    text = cursors_to_json(cursors.values())
    assert cursors_from_json(text) == cursors
    assert len(text) < 1000
    assert cursors_from_json(text.replace('"ts_ns"', '"later":1,"ts_ns"')) == cursors
    assert cursors_from_json(cursors_to_json([])) == {}
    for damaged in ("", "{}7", "7", "[[1,2]]", "[[[1],{}]]"):
        with pytest.raises(InvalidInput):
            cursors_from_json(damaged)


def test_the_heartbeat_has_stable_words():
    line = heartbeat(
        status="ok", shards=16, errors=0, duration_ns=7 * SECOND, lag_ns=2 * HOUR, walked_age_ns=180 * SECOND
    )
    assert line == "daily_run: status=ok shards=16 errors=0 duration=7s cursor_lag_max=2h walked_max_age=3m"
    cold = heartbeat(status="error", shards=0, errors=2, duration_ns=0, lag_ns=None, walked_age_ns=None)
    assert cold == "daily_run: status=error shards=0 errors=2 duration=0s cursor_lag_max=cold walked_max_age=cold"


def test_the_slowest_shard_gives_the_lag():
    slow, quick = (replace(started(BOTH), frontier_ns=NOW - age, last_walked_ns=NOW - age) for age in (HOUR, 5))
    never = replace(quick, last_walked_ns=0, frontier_ns=NOW + 9)
    assert greatest_lag_ns([quick, slow, never], NOW) == HOUR
    assert greatest_walk_age_ns([quick, slow, never], NOW) == HOUR
    assert greatest_lag_ns([], NOW) is greatest_walk_age_ns([never], NOW) is None
    assert greatest_lag_ns([never], NOW) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3600, "1h"), (3661, "1h1m1s"), (90_000, "25h"), (-5, "0s")],
)
def test_durations_are_short(seconds, text):
    assert duration(int(seconds * SECOND)) == text
