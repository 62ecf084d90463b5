"""The stretches of time that rules crossed: exactly the events whose actions became due in between."""

from __future__ import annotations

import pytest
from lifecycle_cases import DAY, MIDNIGHT, SECOND

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.due import after_days
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.plan.actions import RuledBucket
from tidegate.pipeline.plan.frontier import DueWindow, Frontier, due_windows, spans

HOUR = 3600 * SECOND


def crossed(*actions, after_ns, until_ns, shards=(0,), tags=(), versioning=Versioning.OFF, day_seconds=86_400):
    rule_set = RuleSet((Rule("r", True, Filter(prefix="p", tags=tags), actions),))
    bucket = RuledBucket("uid", rule_set, BucketContext(versioning, day_seconds=day_seconds))
    return due_windows([Frontier(bucket, dict.fromkeys(shards, after_ns))], until_ns)


@pytest.mark.parametrize("day_seconds", [86_400, 10, 0.5])
@pytest.mark.parametrize("days", [0, 1, 30])
@pytest.mark.parametrize("after_ns", [MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + 5 * HOUR])
@pytest.mark.parametrize("length_ns", [DAY, DAY + 7 * HOUR, 3 * DAY - 1])
def test_a_stretch_holds_exactly_the_events_that_became_due(day_seconds, days, after_ns, length_ns):
    until_ns = after_ns + length_ns
    action = Action(ActionKind.TRANSITION_DAYS, days=days, storage_class="GLACIER")
    (found,) = crossed(action, after_ns=after_ns, until_ns=until_ns, day_seconds=day_seconds)
    for ts_ns in (found.first_ns - 1, found.first_ns, found.first_ns + 1, found.last_ns, found.last_ns + 1):
        became_due = after_ns < after_days(ts_ns, days, day_seconds=day_seconds) <= until_ns
        assert (found.first_ns <= ts_ns <= found.last_ns) == became_due


def test_nothing_is_crossed_between_two_midnights_of_real_days():
    action = Action(ActionKind.EXPIRATION_DAYS, days=1)
    assert crossed(action, after_ns=MIDNIGHT + 1, until_ns=MIDNIGHT + DAY - 1) == []


def test_days_beyond_all_time_are_never_crossed_and_fit_64_bits():
    (found,) = crossed(Action(ActionKind.EXPIRATION_DAYS, days=2**31 - 1), after_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY)
    assert -(2**63) <= found.first_ns <= found.last_ns < 0


def test_uploads_count_from_their_start_and_versions_from_what_made_or_demoted_them():
    actions = [Action(ActionKind.EXPIRATION_DAYS, days=1), Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=1)]
    found = crossed(*actions, after_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY)
    assert {one.operations for one in found} == {("put", "delete-marker"), ("upload-started",)}
    assert {one.prefix for one in found} == {"p"}


def test_removals_count_only_with_versioning_and_taggings_only_for_rules_with_tags():
    action = Action(ActionKind.EXPIRATION_DAYS, days=1)

    def operations(**options):
        found = crossed(action, after_ns=MIDNIGHT, until_ns=MIDNIGHT + 1, **options)
        return {operation for one in found for operation in one.operations}

    assert operations() == set()
    assert operations(tags=(("a", "1"),)) == {EventKind.TAGGING}
    assert EventKind.DELETE in operations(versioning=Versioning.SUSPENDED)


def test_shards_that_have_come_equally_far_are_taken_together():
    action = Action(ActionKind.EXPIRATION_DAYS, days=1)
    (found,) = crossed(action, after_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY, shards=(0, 3, 15))
    assert found.shards == 1 | 1 << 3 | 1 << 15


def test_stretches_that_touch_are_read_as_one():
    given = [(5, 9), (1, 3), (4, 4), (20, 30), (22, 25)]
    found = [DueWindow("uid", 1, ("put",), "", False, first_ns, last_ns) for first_ns, last_ns in given]
    assert spans(found) == [(1, 9), (20, 30)]
