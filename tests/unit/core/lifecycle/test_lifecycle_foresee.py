"""Forecaster: it tells what a row of passes then does, and when."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from lifecycle_cases import (
    DAY,
    MARKER_CLEANUP,
    MIDNIGHT,
    abort,
    applied,
    expiration,
    marker,
    noncurrent,
    rule,
    rules,
    situations,
    transition,
    version,
)

from tidegate.core.lifecycle.assess import BucketContext, Effect, Hold
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.forecast import Forecaster
from tidegate.core.lifecycle.subjects import Upload, Versioning

HOUR = DAY // 24


def at_one(moment):
    """Passes begin every day at one o'clock."""
    return -(-(moment - HOUR) // DAY) * DAY + HOUR


def forecast(rule_set, versions=(), uploads=(), *, now=MIDNIGHT, days=100, pass_at=at_one, **bucket_context):
    foresight = Forecaster(
        rule_set, BucketContext(**bucket_context), now_ns=now, until_ns=now + days * DAY, pass_at=pass_at
    )
    return foresight.forecast("k", versions, uploads)


def told(found):
    return [
        (entry.planned.effect, entry.planned.version_id, (entry.at_ns - MIDNIGHT) / DAY, entry.freed)
        for entry in found.actions
    ]


def test_an_object_is_deleted_by_the_first_pass_after_its_due_time():
    found = forecast(rules(rule(expiration(3))), [version("", MIDNIGHT + 1, size=7)], now=MIDNIGHT + HOUR)
    assert told(found) == [(Effect.DELETE, "", 4 + 1 / 24, 7)]


def test_what_is_due_already_is_done_at_once():
    found = forecast(rules(rule(expiration(1))), [version("", MIDNIGHT - 9 * DAY)])
    assert [entry.at_ns for entry in found.actions] == [MIDNIGHT]


def test_a_version_is_hidden_then_removed_and_its_marker_after_it():
    both = rules(rule(expiration(1), noncurrent(1), id="old"), rule(MARKER_CLEANUP, id="markers"))
    found = forecast(both, [version("v1", size=7)], versioning=Versioning.ENABLED)
    (hiding, removal, cleanup) = found.actions
    assert (hiding.planned.effect, hiding.at_ns, hiding.size, hiding.freed) == (
        Effect.EXPIRE,
        MIDNIGHT + DAY + HOUR,
        7,
        0,
    )
    # The noncurrent day begins when the marker is made, at one o'clock, and ends at midnight.
    assert (removal.planned.effect, removal.at_ns, removal.freed) == (Effect.DELETE, MIDNIGHT + 3 * DAY + HOUR, 7)
    assert (cleanup.planned.effect, cleanup.planned.rule_id) == (Effect.REMOVE_MARKER, "markers")
    assert cleanup.at_ns == MIDNIGHT + 4 * DAY + HOUR


def test_on_a_suspended_bucket_the_marker_takes_the_place_of_the_null_version():
    versions = [version("v1", MIDNIGHT, size=1), version("null", MIDNIGHT - 9 * DAY, size=7)]
    found = forecast(rules(rule(expiration(1))), versions, versioning=Versioning.SUSPENDED)
    assert [(entry.planned.version_id, entry.size, entry.freed) for entry in found.actions] == [("v1", 1, 7)]
    assert found.later == found.never == []


def test_a_marker_that_the_store_cannot_remove_stays():
    versions = [marker("null", MIDNIGHT - 9 * DAY)]
    kept = forecast(rules(rule(MARKER_CLEANUP)), versions, versioning=Versioning.SUSPENDED, keeps_null_markers=True)
    assert (kept.actions, kept.never) == ([], versions)
    removed = forecast(rules(rule(MARKER_CLEANUP)), versions, versioning=Versioning.SUSPENDED)
    assert [entry.planned.effect for entry in removed.actions] == [Effect.REMOVE_MARKER]


def test_a_retained_version_is_told_as_held_once_and_goes_when_the_retention_ends():
    kept = version("", MIDNIGHT - 9 * DAY, retained_until_ns=MIDNIGHT + 5 * DAY + 1)
    held, gone = forecast(rules(rule(expiration(1))), [kept]).actions
    assert (held.planned.hold, held.at_ns, held.freed) == (Hold.OBJECT_LOCK, MIDNIGHT, 0)
    assert (gone.planned.hold, gone.at_ns) == (None, MIDNIGHT + 5 * DAY + HOUR)


def test_a_legal_hold_has_no_end():
    found = forecast(rules(rule(expiration(1))), [version("", MIDNIGHT - 9 * DAY, legal_hold=True)])
    assert [entry.planned.hold for entry in found.actions] == [Hold.OBJECT_LOCK]


def test_an_object_moves_on_from_class_to_class_and_goes_at_last():
    given_rules = rules(rule(transition(1, "GLACIER"), transition(2, "DEEP_ARCHIVE"), expiration(3)))
    found = forecast(given_rules, [version("")])
    assert [(entry.planned.storage_class, (entry.at_ns - HOUR - MIDNIGHT) / DAY) for entry in found.actions] == [
        ("GLACIER", 1),
        ("DEEP_ARCHIVE", 2),
        ("", 3),
    ]


def test_an_upload_is_aborted_in_its_turn():
    found = forecast(rules(rule(abort(2))), [], [Upload("u", MIDNIGHT)])
    assert [(entry.planned.upload_id, entry.at_ns) for entry in found.actions] == [("u", MIDNIGHT + 2 * DAY + HOUR)]


def test_what_lies_beyond_the_horizon_is_told_from_what_never_comes():
    one = rules(rule(expiration(200), prefix="k"))
    assert forecast(one, [version("")]).later == [version("")]
    assert forecast(rules(rule(expiration(1), tags=(("a", "1"),))), [version("")]).never == [version("")]
    assert forecast(rules(rule(expiration(1), prefix="other")), [version("")], [Upload("u", 1)]).never == [
        version(""),
        Upload("u", 1),
    ]


def test_the_newest_noncurrent_versions_are_kept_for_ever():
    versions = [version(f"v{number}", MIDNIGHT - number * DAY) for number in range(5)]
    found = forecast(rules(rule(noncurrent(1, newer=2))), versions, versioning=Versioning.ENABLED)
    assert sorted(entry.planned.version_id for entry in found.actions) == ["v3", "v4"]
    assert [item.version_id for item in found.never] == ["v0", "v1", "v2"]


@settings(max_examples=300, deadline=None)
@given(situations())
def test_foresight_tells_what_a_row_of_passes_does(situation):
    versions, uploads, rule_set, bucket_context, now = situation
    days = 12
    step = DAY if bucket_context.day_seconds == 86_400 else int(bucket_context.day_seconds * 1e9)
    last = now + days * step

    def pass_at(moment):
        return now + -(-(moment - now) // step) * step

    foresight = Forecaster(rule_set, bucket_context, now_ns=now, until_ns=last, pass_at=pass_at)
    found = foresight.forecast("k", versions, uploads)
    foreseen = Counter(
        (entry.at_ns, entry.planned.effect, entry.planned.action_id)
        for entry in found.actions
        if not entry.planned.hold
    )
    happened: Counter = Counter()
    left, waiting = list(versions), list(uploads)
    for moment in range(now, last + 1, step):
        plan = [
            entry for entry in decide("k", left, waiting, rule_set, bucket_context, now_ns=moment) if entry.hold is None
        ]
        happened.update((moment, entry.effect, entry.action_id) for entry in plan)
        aborted = {entry.upload_id for entry in plan if entry.upload_id}
        waiting = [upload for upload in waiting if upload.upload_id not in aborted]
        here = {found_version.version_id for found_version in left}
        left = in_order(
            left, [entry for entry in plan if not entry.upload_id and entry.version_id in here], bucket_context, moment
        )
    assert foreseen == happened


def in_order(versions, plan, bucket_context, moment):
    """An earlier action of the same pass may have removed what a later one is about."""
    for entry in plan:
        if any(found.version_id == entry.version_id for found in versions):
            versions = applied(versions, [entry], bucket_context, moment)
    return versions
