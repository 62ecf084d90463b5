"""Due times: rounding to midnight, the clocks they start from, and the moment at which an action became due."""

from __future__ import annotations

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
    marker,
    noncurrent,
    noncurrent_transition,
    transition,
    version,
)

from tidegate.core.lifecycle.due import after_days, became_due_at, due_at, longest_wait_ns
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.lifecycle.subjects import Subject, Upload, VersionRole, of_upload, subjects_of


def due(action, subject, day_seconds=86_400):
    return due_at(action, subject, day_seconds=day_seconds)


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        (MIDNIGHT - 1, MIDNIGHT + 2 * DAY),
        (MIDNIGHT, MIDNIGHT + 2 * DAY),
        (MIDNIGHT + 1, MIDNIGHT + 3 * DAY),
        (MIDNIGHT + DAY - 1, MIDNIGHT + 3 * DAY),
    ],
)
def test_days_end_at_the_next_midnight_and_an_exact_midnight_stays(created, expected):
    assert due(expiration(2), Subject(VersionRole.CURRENT, created)) == expected


def test_zero_days_end_at_the_next_midnight():
    assert due(transition(0), Subject(VersionRole.CURRENT, MIDNIGHT + 1)) == MIDNIGHT + DAY
    assert due(transition(0), Subject(VersionRole.CURRENT, MIDNIGHT)) == MIDNIGHT


def test_a_shortened_day_is_not_rounded():
    assert due(expiration(3), Subject(VersionRole.CURRENT, MIDNIGHT + 7), day_seconds=10) == MIDNIGHT + 7 + 30 * SECOND
    assert due(expiration(3), Subject(VersionRole.CURRENT, MIDNIGHT), day_seconds=0.5) == MIDNIGHT + SECOND * 3 // 2


def test_a_date_is_due_on_that_date_whatever_the_length_of_a_day():
    action = expiration(date=20_000 * 86_400)
    for day_seconds in (86_400, 10):
        assert due(action, Subject(VersionRole.CURRENT, MIDNIGHT + 5 * DAY), day_seconds) == MIDNIGHT


def test_a_noncurrent_version_counts_from_the_creation_of_its_successor():
    subjects = subjects_of([version("v3", MIDNIGHT + 5 * DAY), version("v2", MIDNIGHT + DAY), version("v1", MIDNIGHT)])
    assert [subject.role for subject in subjects] == [
        VersionRole.CURRENT,
        VersionRole.NONCURRENT,
        VersionRole.NONCURRENT,
    ]
    assert due(noncurrent(2), subjects[0]) is None
    assert due(noncurrent(2), subjects[1]) == MIDNIGHT + 7 * DAY
    assert due(noncurrent(2), subjects[2]) == MIDNIGHT + 3 * DAY
    assert due(noncurrent_transition(1), subjects[2]) == MIDNIGHT + 2 * DAY


def test_the_newest_noncurrent_versions_are_never_due_where_the_rule_keeps_them():
    subjects = subjects_of([version(f"v{n}", MIDNIGHT - n * DAY) for n in range(5)])
    assert [due(noncurrent(1, newer=2), subject) is not None for subject in subjects] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert due(noncurrent(1, newer=2), subjects[3]) == due(noncurrent(1), subjects[3])


def test_a_sole_marker_is_due_for_clean_up_from_its_creation_and_for_expiration_after_its_days():
    (sole,) = subjects_of([marker(created=MIDNIGHT + 5)])
    assert sole.role is VersionRole.SOLE_MARKER
    assert due(MARKER_CLEANUP, sole) == MIDNIGHT + 5
    assert due(expiration(1), sole) == MIDNIGHT + 2 * DAY
    assert due(transition(1), sole) is None


def test_a_marker_above_other_versions_is_never_due():
    covering = subjects_of([marker(created=MIDNIGHT), version(created=MIDNIGHT - DAY)])[0]
    assert covering.role is VersionRole.COVERING_MARKER
    for action in (MARKER_CLEANUP, expiration(1), expiration(date=0), transition(0), noncurrent(1)):
        assert due(action, covering) is None


def test_a_noncurrent_marker_ages_like_a_version_and_does_not_move():
    below = subjects_of([version(created=MIDNIGHT), marker(created=MIDNIGHT - DAY)])[1]
    assert below.role is VersionRole.NONCURRENT_MARKER
    assert due(noncurrent(1), below) == MIDNIGHT + DAY
    assert due(noncurrent_transition(0), below) is None


def test_only_the_abortion_applies_to_an_upload():
    subject = of_upload(Upload("u", MIDNIGHT + 1))
    assert due(abort(1), subject) == MIDNIGHT + 2 * DAY
    assert due(expiration(1), subject) is None
    assert due(abort(1), Subject(VersionRole.CURRENT, MIDNIGHT)) is None


def became(action, rule_filter, versions, position):
    subject = subjects_of(versions)[position]
    return became_due_at(action, rule_filter, subject, versions[position], due(action, subject))


def test_an_action_became_due_when_a_late_tag_made_its_rule_match():
    tagged = [version(created=MIDNIGHT, tagged_ns=MIDNIGHT + 9 * DAY)]
    assert became(expiration(1), Filter(tags=(("a", "1"),)), tagged, 0) == MIDNIGHT + 9 * DAY
    assert became(expiration(1), Filter(prefix="k"), tagged, 0) == MIDNIGHT + DAY


def test_an_early_tag_does_not_move_the_moment():
    tagged = [version(created=MIDNIGHT, tagged_ns=MIDNIGHT + 1)]
    assert became(expiration(1), Filter(tags=(("a", "1"),)), tagged, 0) == MIDNIGHT + DAY


def test_an_object_made_after_the_rules_date_became_due_at_its_creation():
    assert became(expiration(date=0), Filter(), [version(created=MIDNIGHT)], 0) == MIDNIGHT


def test_an_action_became_due_when_the_removal_of_another_version_gave_it_its_place():
    uncovered = [version(created=MIDNIGHT, moved_ns=MIDNIGHT + 7 * DAY)]
    assert became(expiration(1), Filter(), uncovered, 0) == MIDNIGHT + 7 * DAY
    sole = [marker(created=MIDNIGHT, moved_ns=MIDNIGHT + 3)]
    assert became(MARKER_CLEANUP, Filter(), sole, 0) == MIDNIGHT + 3


def test_a_version_became_one_too_many_when_the_last_of_those_kept_was_demoted():
    # v0 demoted v1 on day 9, v1 demoted v2 on day 1: only from day 9 on are there two newer ones than v3.
    times = (9, 1, 0, -1)
    versions = [version(f"v{n}", MIDNIGHT + day * DAY) for n, day in enumerate(times)]
    assert became(noncurrent(1, newer=2), Filter(), versions, 3) == MIDNIGHT + 9 * DAY
    assert became(noncurrent(1, newer=1), Filter(), versions, 3) == MIDNIGHT + DAY


@given(st.integers(0, 2**62), st.integers(0, 3000))
def test_rounding_is_up_by_less_than_a_day_and_only_to_midnights(start, days):
    end = after_days(start, days, day_seconds=86_400)
    assert end % DAY == 0
    assert 0 <= end - (start + days * DAY) < DAY
    assert end - start <= longest_wait_ns(days, day_seconds=86_400)


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 3000), st.sampled_from([86_400, 3600, 10, 0.25]))
def test_what_is_older_is_due_no_later(one, other, days, day_seconds):
    early, late = sorted((one, other))
    assert after_days(early, days, day_seconds=day_seconds) <= after_days(late, days, day_seconds=day_seconds)


@given(st.integers(0, 2**62), st.integers(0, 3000), st.integers(1, 100_000).filter(lambda length: length != 86_400))
def test_days_of_another_length_are_exact(start, days, day_seconds):
    end = after_days(start, days, day_seconds=day_seconds)
    assert end - start == days * day_seconds * SECOND == longest_wait_ns(days, day_seconds=day_seconds)
