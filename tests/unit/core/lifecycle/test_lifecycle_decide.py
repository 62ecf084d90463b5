"""The plan for one key: what happens in each versioning state, which action goes first, and what is never done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from lifecycle_cases import (
    DAY,
    MARKER_CLEANUP,
    MIDNIGHT,
    abort,
    applied,
    brief,
    expiration,
    marker,
    noncurrent,
    noncurrent_transition,
    plan,
    rule,
    rules,
    situations,
    transition,
    version,
)

from tidegate.core.lifecycle.assess import SMALL_OBJECT_BYTES, Effect, Hold
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.due import due_at
from tidegate.core.lifecycle.rules import ActionKind, TransitionMinimum
from tidegate.core.lifecycle.subjects import Upload, Versioning, VersionRole, of_upload, subjects_of

LATER = MIDNIGHT + 100 * DAY


@pytest.mark.parametrize(("now", "count"), [(-1, 0), (0, 1), (1, 1)])
def test_an_action_is_taken_from_its_due_time_on_and_not_a_nanosecond_before(now, count):
    planned = plan(rules(rule(expiration(1))), [version(created=MIDNIGHT)], now=MIDNIGHT + DAY + now)
    assert len(planned) == count


@pytest.mark.parametrize(
    ("versioning", "version_id", "effect"),
    [
        (Versioning.OFF, "", Effect.DELETE),
        (Versioning.ENABLED, "v1", Effect.EXPIRE),
        (Versioning.ENABLED, "null", Effect.EXPIRE),
        (Versioning.SUSPENDED, "null", Effect.EXPIRE),
        (Versioning.SUSPENDED, "v1", Effect.EXPIRE),
    ],
)
def test_expiration_deletes_on_a_bucket_without_versioning_and_hides_elsewhere(versioning, version_id, effect):
    planned = plan(rules(rule(expiration(1))), [version(version_id)], now=LATER, versioning=versioning)
    assert brief(planned) == [(effect, version_id, "r")]


def test_expiration_leaves_noncurrent_versions_alone():
    versions = [version("v2", LATER), version("v1", MIDNIGHT)]
    assert plan(rules(rule(expiration(1))), versions, now=LATER, versioning=Versioning.ENABLED) == []


@pytest.mark.parametrize("action", [MARKER_CLEANUP, expiration(1), expiration(date=0)])
def test_a_delete_marker_goes_when_it_is_the_only_version_left(action):
    sole = plan(rules(rule(action)), [marker()], now=LATER, versioning=Versioning.ENABLED)
    assert brief(sole) == [(Effect.REMOVE_MARKER, "m1", "r")]
    covering = [marker("m1", MIDNIGHT), version("v1", MIDNIGHT - DAY)]
    assert plan(rules(rule(action)), covering, now=LATER, versioning=Versioning.ENABLED) == []


def test_a_young_sole_marker_waits_for_the_days_of_the_expiration():
    sole = [marker(created=MIDNIGHT)]
    assert plan(rules(rule(expiration(2))), sole, now=MIDNIGHT + 2 * DAY - 1, versioning=Versioning.ENABLED) == []


def test_noncurrent_versions_and_markers_are_deleted_for_good():
    versions = [version("v3", MIDNIGHT + 2), marker("m2", MIDNIGHT + 1), version("v1", MIDNIGHT)]
    planned = plan(rules(rule(noncurrent(1))), versions, now=LATER, versioning=Versioning.ENABLED)
    assert brief(planned) == [(Effect.REMOVE_MARKER, "m2", "r"), (Effect.DELETE, "v1", "r")]


@pytest.mark.parametrize(("newer", "gone"), [(1, ["v3", "v4"]), (2, ["v4"]), (3, []), (100, [])])
def test_the_newest_noncurrent_versions_are_kept(newer, gone):
    versions = [version(f"v{n}", MIDNIGHT - n) for n in range(1, 5)]
    planned = plan(rules(rule(noncurrent(1, newer=newer))), versions, now=LATER, versioning=Versioning.ENABLED)
    assert [entry.version_id for entry in planned] == gone


def test_a_version_one_too_many_must_also_have_been_noncurrent_for_the_days():
    versions = [version(f"v{n}", MIDNIGHT - n) for n in range(1, 4)]
    keep_one = rules(rule(noncurrent(5, newer=1)))
    assert plan(keep_one, versions, now=MIDNIGHT + 5 * DAY - 1, versioning=Versioning.ENABLED) == []
    assert len(plan(keep_one, versions, now=MIDNIGHT + 5 * DAY, versioning=Versioning.ENABLED)) == 1


def test_an_upload_is_aborted_by_its_prefix_and_days():
    uploads = [Upload("u1", MIDNIGHT), Upload("u2", MIDNIGHT + DAY)]
    one_day = rules(rule(abort(3), id="slow"), rule(abort(1), id="fast", prefix="k"), rule(abort(1), prefix="z"))
    planned = plan(one_day, uploads=uploads, now=MIDNIGHT + DAY)
    assert [(entry.effect, entry.upload_id, entry.rule_id) for entry in planned] == [
        (Effect.ABORT_UPLOAD, "u1", "fast"),
    ]


@pytest.mark.parametrize(
    ("predicates", "matches"),
    [
        ({"prefix": ""}, True),
        ({"prefix": "logs/"}, True),
        ({"prefix": "logs/é\n:"}, True),
        ({"prefix": "Logs/"}, False),
        ({"tags": (("a", "1"),)}, True),
        ({"tags": (("a", "1"), ("b", "2"))}, True),
        ({"tags": (("a", "2"),)}, False),
        ({"tags": (("a", "1"), ("c", "3"))}, False),
        ({"size_greater_than": 99}, True),
        ({"size_greater_than": 100}, False),
        ({"size_less_than": 101}, True),
        ({"size_less_than": 100}, False),
        ({"prefix": "logs/", "tags": (("b", "2"),), "size_greater_than": 99, "size_less_than": 101}, True),
        ({"prefix": "logs/", "tags": (("b", "2"),), "size_greater_than": 99, "size_less_than": 100}, False),
    ],
)
def test_a_filter_matches_by_prefix_tags_and_exclusive_sizes(predicates, matches):
    found = version(size=100, tags=(("b", "2"), ("a", "1"), ("d", "")))
    planned = plan(rules(rule(expiration(1), **predicates)), [found], key="logs/é\n:😀/x", now=LATER)
    assert bool(planned) is matches


def test_a_filter_with_tags_or_sizes_never_matches_a_marker_or_an_upload():
    for predicates in ({"tags": (("a", "1"),)}, {"size_less_than": 10}, {"size_greater_than": 0}):
        fussy = rules(rule(expiration(1), abort(1), noncurrent(1), **predicates))
        assert plan(fussy, [marker()], [Upload("u", MIDNIGHT)], now=LATER, versioning=Versioning.ENABLED) == []


def test_a_disabled_rule_does_nothing():
    assert plan(rules(rule(expiration(1), enabled=False)), [version()], now=LATER) == []


def test_of_two_expirations_the_earlier_wins():
    both = rules(rule(expiration(9), id="late"), rule(expiration(3), id="early"), rule(expiration(3), id="same"))
    (planned,) = plan(both, [version()], now=LATER)
    assert (planned.rule_id, planned.due_ns) == ("early", MIDNIGHT + 3 * DAY)


def test_of_two_transitions_the_colder_class_wins():
    both = rules(rule(transition(1, "STANDARD_IA"), id="warm"), rule(transition(2, "DEEP_ARCHIVE"), id="cold"))
    (planned,) = plan(both, [version()], now=LATER)
    assert (planned.rule_id, planned.storage_class, planned.action_id) == (
        "cold",
        "DEEP_ARCHIVE",
        "cold/TransitionDays/DEEP_ARCHIVE",
    )
    (reversed_order,) = plan(both, [version()], now=LATER, classes=("DEEP_ARCHIVE", "STANDARD_IA"))
    assert reversed_order.rule_id == "warm"


def test_permanent_deletion_goes_before_a_transition():
    both = rules(rule(transition(1), id="move"), rule(expiration(2), id="end"))
    assert brief(plan(both, [version("")], now=LATER)) == [(Effect.DELETE, "", "end")]
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY)]
    noncurrents = rules(rule(noncurrent_transition(1), id="move"), rule(noncurrent(2), id="end"))
    planned = plan(noncurrents, versions, now=LATER, versioning=Versioning.ENABLED)
    assert brief(planned) == [(Effect.DELETE, "v1", "end")]


def test_a_transition_goes_before_a_delete_marker_which_follows_when_it_is_done():
    both = rules(rule(transition(1), id="move"), rule(expiration(1), id="end"))
    assert brief(plan(both, [version()], now=LATER, versioning=Versioning.ENABLED)) == [
        (Effect.TRANSITION, "v1", "move")
    ]
    moved = [version(storage_class="GLACIER")]
    assert brief(plan(both, moved, now=LATER, versioning=Versioning.ENABLED)) == [(Effect.EXPIRE, "v1", "end")]


def test_the_null_version_of_a_suspended_bucket_is_destroyed_by_its_expiration_which_so_goes_before_a_transition():
    both = rules(rule(transition(1), id="move"), rule(expiration(1), id="end"))
    null = plan(both, [version("null")], now=LATER, versioning=Versioning.SUSPENDED)
    assert brief(null) == [(Effect.EXPIRE, "null", "end")]
    other = plan(both, [version("v1")], now=LATER, versioning=Versioning.SUSPENDED)
    assert brief(other) == [(Effect.TRANSITION, "v1", "move")]


def test_a_transition_to_a_class_that_no_location_serves_is_not_planned_and_holds_nothing_up():
    both = rules(rule(transition(1), id="move"), rule(expiration(5), id="end"))
    bucket_context = {"versioning": Versioning.ENABLED, "classes": ("STANDARD_IA",)}
    assert plan(both, [version()], now=MIDNIGHT + 2 * DAY, **bucket_context) == []
    assert brief(plan(both, [version()], now=LATER, **bucket_context)) == [(Effect.EXPIRE, "v1", "end")]


@pytest.mark.parametrize("versioning", Versioning)
def test_a_moved_version_is_judged_by_its_original_time_and_goes_on_to_a_second_location(versioning):
    steps = rules(rule(transition(1, "STANDARD_IA"), transition(3, "GLACIER"), expiration(5)))
    at = {days: MIDNIGHT + days * DAY for days in (1, 2, 3, 5)}
    plans = [
        plan(steps, [version("null", storage_class=held_in)], now=at[days], versioning=versioning)
        for held_in, days in (("", 1), ("STANDARD_IA", 2), ("STANDARD_IA", 3), ("GLACIER", 3), ("GLACIER", 5))
    ]
    assert [[(entry.kind, entry.storage_class, entry.due_ns) for entry in found] for found in plans] == [
        [(ActionKind.TRANSITION_DAYS, "STANDARD_IA", at[1])],
        [],
        [(ActionKind.TRANSITION_DAYS, "GLACIER", at[3])],
        [],
        [(ActionKind.EXPIRATION_DAYS, "", at[5])],
    ]


def test_noncurrent_versions_move_days_after_their_successor_came_and_the_newest_of_them_stay():
    moves = rules(rule(noncurrent_transition(2, newer=1)))
    versions = [version(f"v{4 - n}", created=MIDNIGHT - n * DAY) for n in range(4)]
    due = MIDNIGHT + 2 * DAY - DAY  # v2 became noncurrent when v3 was made, a day before midnight
    assert plan(moves, versions, now=MIDNIGHT - 1, versioning=Versioning.ENABLED) == []
    found = plan(moves, versions, now=due, versioning=Versioning.ENABLED)
    assert [(entry.version_id, entry.due_ns) for entry in found] == [("v2", due), ("v1", due - DAY)]
    moved = [replace(one, storage_class="GLACIER") if one.version_id in ("v1", "v2") else one for one in versions]
    assert plan(moves, moved, now=due, versioning=Versioning.ENABLED) == []


@pytest.mark.parametrize(("held_in", "target"), [("GLACIER", "GLACIER"), ("DEEP_ARCHIVE", "GLACIER")])
def test_nothing_moves_to_a_class_it_has_or_to_a_warmer_one(held_in, target):
    assert plan(rules(rule(transition(1, target))), [version(storage_class=held_in)], now=LATER) == []


@pytest.mark.parametrize("held_in", ["", "STANDARD", "somewhere-else"])
def test_everything_moves_from_the_standard_class_and_from_unknown_ones(held_in):
    assert len(plan(rules(rule(transition(1))), [version(storage_class=held_in)], now=LATER)) == 1


@pytest.mark.parametrize(
    ("size", "minimum", "target", "predicates", "bucket_context", "moves"),
    [
        (SMALL_OBJECT_BYTES - 1, TransitionMinimum.ALL_CLASSES, "GLACIER", {}, {}, False),
        (SMALL_OBJECT_BYTES, TransitionMinimum.ALL_CLASSES, "GLACIER", {}, {}, True),
        (1, TransitionMinimum.VARIES, "GLACIER", {}, {}, True),
        (1, TransitionMinimum.VARIES, "DEEP_ARCHIVE", {}, {}, True),
        (SMALL_OBJECT_BYTES - 1, TransitionMinimum.VARIES, "STANDARD_IA", {}, {}, False),
        (1, TransitionMinimum.ALL_CLASSES, "STANDARD_IA", {"size_greater_than": 0}, {}, True),
        (1, TransitionMinimum.ALL_CLASSES, "STANDARD_IA", {"size_less_than": 5}, {}, True),
        (0, TransitionMinimum.ALL_CLASSES, "GLACIER", {}, {"minimum_transition_bytes": 0}, True),
    ],
)
def test_transitions_leave_small_objects_alone_unless_told_otherwise(
    size, minimum, target, predicates, bucket_context, moves
):
    moving = rules(rule(transition(1, target), **predicates), minimum=minimum)
    assert bool(plan(moving, [version(size=size)], now=LATER, **bucket_context)) is moves


def test_expirations_take_small_objects():
    assert len(plan(rules(rule(expiration(1))), [version(size=0)], now=LATER)) == 1


@pytest.mark.parametrize("lock", [{"legal_hold": True}, {"retained_until_ns": LATER + 1}])
def test_a_locked_version_is_not_deleted_and_the_plan_says_so(lock):
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY, **lock)]
    (held,) = plan(rules(rule(noncurrent(1))), versions, now=LATER, versioning=Versioning.ENABLED)
    assert (held.effect, held.version_id, held.hold) == (Effect.DELETE, "v1", Hold.OBJECT_LOCK)


def test_a_retention_that_has_ended_holds_nothing():
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY, retained_until_ns=LATER)]
    (planned,) = plan(rules(rule(noncurrent(1))), versions, now=LATER, versioning=Versioning.ENABLED)
    assert planned.hold is None


def test_a_locked_version_can_be_hidden_and_moved():
    locked = [version(legal_hold=True)]
    bucket_context = {"now": LATER, "versioning": Versioning.ENABLED}
    assert brief(plan(rules(rule(expiration(1))), locked, **bucket_context)) == [(Effect.EXPIRE, "v1", "r")]
    assert brief(plan(rules(rule(transition(1))), locked, **bucket_context)) == [(Effect.TRANSITION, "v1", "r")]


def test_while_its_deletion_is_held_a_version_moves():
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY, legal_hold=True)]
    both = rules(rule(noncurrent_transition(1), id="move"), rule(noncurrent(2), id="end"))
    planned = plan(both, versions, now=LATER, versioning=Versioning.ENABLED)
    assert [(entry.effect, entry.rule_id, entry.hold) for entry in planned] == [
        (Effect.DELETE, "end", Hold.OBJECT_LOCK),
        (Effect.TRANSITION, "move", None),
    ]


def test_on_a_suspended_bucket_a_locked_null_version_anywhere_holds_the_marker_that_would_replace_it():
    versions = [version("v2", MIDNIGHT), version("null", MIDNIGHT - DAY, legal_hold=True)]
    (held,) = plan(rules(rule(expiration(1))), versions, now=LATER, versioning=Versioning.SUSPENDED)
    assert (held.effect, held.version_id, held.hold) == (Effect.EXPIRE, "v2", Hold.OBJECT_LOCK)


def test_what_is_still_to_be_replicated_is_left_alone():
    pending = [version("", replication_pending=True)]
    for action in (expiration(1), transition(1)):
        (held,) = plan(rules(rule(action)), pending, now=LATER)
        assert held.hold is Hold.REPLICATION_PENDING


def permanent(entry, versions, bucket_context):
    if entry.effect in (Effect.DELETE, Effect.REMOVE_MARKER):
        return [found for found in versions if found.version_id == entry.version_id]
    if entry.effect is Effect.EXPIRE and bucket_context.versioning is Versioning.SUSPENDED:
        return [found for found in versions if found.is_null]
    return []


@settings(max_examples=300, deadline=None)
@given(situations())
def test_nothing_is_done_before_it_is_due_and_nothing_twice(situation):
    versions, uploads, rule_set, bucket_context, now = situation
    planned = decide("k", versions, uploads, rule_set, bucket_context, now_ns=now)
    subjects = dict(zip([found.version_id for found in versions], subjects_of(versions), strict=True))
    subjects |= {upload.upload_id: of_upload(upload) for upload in uploads}
    for entry in planned:
        subject = subjects[entry.upload_id or entry.version_id]
        # The generated rules may have two actions of one kind, and so of one id.
        actions = [pair.action for pair in rule_set.flattened() if pair.id == entry.action_id]
        assert entry.due_ns in [due_at(action, subject, day_seconds=bucket_context.day_seconds) for action in actions]
        assert entry.due_ns <= now
        assert entry.became_due_ns >= entry.due_ns
    targets = [(entry.version_id, entry.upload_id, entry.hold is None) for entry in planned]
    assert len(set(targets)) == len(targets)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_locked_and_pending_versions_are_never_destroyed(situation):
    versions, uploads, rule_set, bucket_context, now = situation
    for entry in decide("k", versions, uploads, rule_set, bucket_context, now_ns=now):
        if entry.hold is None:
            victims = permanent(entry, versions, bucket_context)
            assert not any(victim.locked(now) or victim.replication_pending for victim in victims)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_each_effect_suits_the_place_of_its_version(situation):
    versions, uploads, rule_set, bucket_context, now = situation
    roles = {found.version_id: subject.role for found, subject in zip(versions, subjects_of(versions), strict=True)}
    for entry in decide("k", versions, uploads, rule_set, bucket_context, now_ns=now):
        role = VersionRole.UPLOAD if entry.upload_id else roles[entry.version_id]
        match entry.effect:
            case Effect.DELETE:
                assert role is (
                    VersionRole.CURRENT if bucket_context.versioning is Versioning.OFF else VersionRole.NONCURRENT
                )
            case Effect.EXPIRE:
                assert role is VersionRole.CURRENT
                assert bucket_context.versioning is not Versioning.OFF
            case Effect.REMOVE_MARKER:
                assert role in (VersionRole.SOLE_MARKER, VersionRole.NONCURRENT_MARKER)
            case Effect.TRANSITION:
                assert role in (VersionRole.CURRENT, VersionRole.NONCURRENT)
            case Effect.ABORT_UPLOAD:
                assert role is VersionRole.UPLOAD


@settings(max_examples=200, deadline=None)
@given(situations())
def test_keeping_newer_versions_leaves_at_least_that_many(situation):
    versions, _, _, bucket_context, now = situation
    bucket_context = replace(bucket_context, versioning=Versioning.ENABLED)
    versions = [replace(found, version_id=f"v{number}") for number, found in enumerate(versions)]
    for newer in (1, 2, 3):
        keeping = rules(rule(noncurrent(1, newer=newer)))
        left = versions
        for _ in range(3):
            left = applied(left, decide("k", left, [], keeping, bucket_context, now_ns=now), bucket_context, now)
        assert left[: newer + 1] == versions[: newer + 1]


@settings(max_examples=200, deadline=None)
@given(situations())
def test_repeating_the_plan_comes_to_an_end(situation):
    versions, _, rule_set, bucket_context, now = situation
    left = versions
    for _ in range(2 * len(versions) + 8):
        planned = [entry for entry in decide("k", left, [], rule_set, bucket_context, now_ns=now) if entry.hold is None]
        if not planned:
            return
        # One at a time: two workers may finish in any order.
        left = applied(left, planned[:1], bucket_context, now)
    raise AssertionError("the plan never becomes empty")


@settings(max_examples=200, deadline=None)
@given(situations())
def test_what_is_planned_stays_planned_as_time_goes_by(situation):
    versions, uploads, rule_set, bucket_context, now = situation

    def targets(moment):
        planned = decide("k", versions, uploads, rule_set, bucket_context, now_ns=moment)
        return {(entry.version_id, entry.upload_id) for entry in planned if entry.hold is None}

    assert targets(now) <= targets(now + 7 * DAY)
