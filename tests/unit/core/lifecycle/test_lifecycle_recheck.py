"""A task is carried out only while the rules, as they are now, still ask for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from lifecycle_cases import (
    DAY,
    MARKER_CLEANUP,
    MIDNIGHT,
    abort,
    expiration,
    marker,
    noncurrent,
    plan,
    rule,
    rule_sets,
    rules,
    situations,
    version,
)

from tidegate.core.lifecycle.assess import EvaluationContext, assess
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS
from tidegate.core.lifecycle.recheck import Seen, StandingRules
from tidegate.core.lifecycle.subjects import Upload, of_upload, subjects_of
from tidegate.core.lifecycle.tasks import ObjectTask, Stale

NOW = MIDNIGHT + 9 * DAY
CONTEXT = {"owner": "o", "bucket": "b", "bucket_uid": "u1", "pass_id": "p"}


def task_of(planned, versions=(), uploads=()):
    """As the roles make it from what they listed."""
    found = next((entry for entry in versions if entry.version_id == planned.version_id), None)
    if planned.upload_id:
        found = next(entry for entry in uploads if entry.upload_id == planned.upload_id)
    size = None if planned.upload_id or found.is_marker else found.size
    return ObjectTask.of(planned, **CONTEXT, created_ns=found.created_ns, size=size)


def one_task(rule_set, versions=(), uploads=()):
    (planned,) = plan(rule_set, versions, uploads, now=NOW)
    return task_of(planned, versions, uploads)


def standing(rule_set, day_seconds=REAL_DAY_SECONDS):
    return StandingRules(rule_set, day_seconds=day_seconds)


EXPIRY = rule(expiration(3), prefix="k")


@pytest.mark.parametrize(
    "later",
    [
        None,
        rules(),
        rules(replace(EXPIRY, enabled=False)),
        rules(replace(EXPIRY, id="other")),
        rules(rule(expiration(10), prefix="k")),
        rules(rule(expiration(date=MIDNIGHT // 10**9), prefix="k")),
        rules(rule(noncurrent(3), prefix="k")),
        rules(rule(expiration(3), prefix="kk")),
        rules(rule(expiration(3), size_less_than=1 << 20)),
        rules(rule(expiration(3), size_greater_than=1 << 20)),
        rules(rule(expiration(3), tags=(("a", "1"),))),
    ],
)
def test_a_rule_that_no_longer_asks_for_it_voids_the_task(later):
    task = one_task(rules(EXPIRY), [version()])
    assert standing(rules(EXPIRY)).why_stale(task, now_ns=NOW) is None
    assert standing(later).why_stale(task, now_ns=NOW) is Stale.RULE


@pytest.mark.parametrize(
    "later",
    [
        rules(rule(expiration(1), prefix="k")),
        rules(rule(expiration(9), prefix="k")),
        rules(rule(expiration(3))),
        rules(rule(expiration(3), size_less_than=(1 << 20) + 1)),
        rules(rule(abort(1), id="more"), EXPIRY),
    ],
)
def test_a_rule_that_was_changed_and_still_asks_for_it_does_not(later):
    task = one_task(rules(EXPIRY), [version()])
    assert standing(later).why_stale(task, now_ns=NOW) is None


def test_longer_days_count_from_when_a_noncurrent_version_became_so():
    versions = [version("v2", MIDNIGHT + 2 * DAY), version("v1", MIDNIGHT)]
    task = one_task(rules(rule(noncurrent(3))), versions)
    assert standing(rules(rule(noncurrent(7)))).why_stale(task, now_ns=NOW) is None
    assert standing(rules(rule(noncurrent(8)))).why_stale(task, now_ns=NOW) is Stale.RULE


def test_a_worker_whose_clock_is_behind_does_not_doubt_what_was_due():
    task = one_task(rules(EXPIRY), [version()])
    assert standing(rules(EXPIRY)).why_stale(task, now_ns=MIDNIGHT) is None
    assert standing(rules(rule(expiration(4), prefix="k"))).why_stale(task, now_ns=MIDNIGHT) is Stale.RULE


def test_tags_are_compared_with_those_that_the_object_has_now():
    tagged = rules(rule(expiration(3), tags=(("a", "1"),)))
    task = one_task(tagged, [version(tags=(("a", "1"), ("b", "2")))])
    now = standing(tagged)
    assert now.needs_tags(task) and not now.needs_newer(task) and now.looks_at_objects
    assert now.why_stale(task, now_ns=NOW, seen=Seen((("b", "2"), ("a", "1")))) is None
    for tags in ((), (("a", "2"),), (("b", "1"),)):
        assert now.why_stale(task, now_ns=NOW, seen=Seen(tags)) is Stale.TAGS
    assert now.why_stale(task, now_ns=NOW, seen=Seen(is_gone=True)) is None
    assert now.why_stale(task, now_ns=NOW) is Stale.RULE  # nobody looked: the rule had no tags a moment ago
    assert not standing(rules(EXPIRY)).looks_at_objects


def test_as_many_newer_versions_must_be_there_as_the_rule_keeps():
    versions = [version(f"v{number}", MIDNIGHT + number * 60) for number in range(4, 0, -1)]
    keeps_two = rules(rule(noncurrent(1, newer=2)))
    task = one_task(keeps_two, versions)
    now = standing(keeps_two)
    assert now.needs_newer(task) and not now.needs_tags(task)
    assert [now.why_stale(task, now_ns=NOW, seen=Seen(newer=count)) for count in (3, 2, 1, 0)] == [
        None,
        None,
        Stale.NEWER,
        Stale.NEWER,
    ]
    keeps_three = standing(rules(rule(noncurrent(1, newer=3))))
    assert keeps_three.why_stale(task, now_ns=NOW, seen=Seen(newer=2)) is Stale.NEWER


def test_markers_and_uploads_are_judged_by_what_they_are():
    cleanup = rules(rule(MARKER_CLEANUP, prefix="k"))
    marker_task = one_task(cleanup, [marker()])
    assert standing(cleanup).why_stale(marker_task, now_ns=NOW) is None
    assert standing(rules(rule(MARKER_CLEANUP, prefix="x"))).why_stale(marker_task, now_ns=NOW) is Stale.RULE
    aborting = rules(rule(abort(2)))
    upload_task = one_task(aborting, uploads=[Upload("u", MIDNIGHT)])
    assert standing(aborting).why_stale(upload_task, now_ns=NOW) is None
    assert standing(rules(rule(abort(30)))).why_stale(upload_task, now_ns=NOW) is Stale.RULE


def is_unique(rule_set):
    """A rule that clients can put has no two actions of one kind and class."""
    ids = [pair.id for pair in rule_set.flattened()]
    return len(ids) == len(set(ids))


@given(situations(), rule_sets())
def test_a_task_is_stale_exactly_if_its_action_is_no_longer_due(situation, found_later):
    """The reference is the assessment that plans are made of."""
    versions, uploads, planned_with, bucket_context, now_ns = situation
    assume(is_unique(planned_with) and is_unique(found_later))
    subjects = dict(zip([entry.version_id for entry in versions], subjects_of(versions), strict=True))
    subjects |= {upload.upload_id: of_upload(upload) for upload in uploads}
    by_id = {entry.version_id: entry for entry in versions}
    for planned in decide("k", versions, uploads, planned_with, bucket_context, now_ns=now_ns):
        if planned.kind.is_transition:
            continue
        found = None if planned.upload_id else by_id[planned.version_id]
        subject = subjects[planned.upload_id or planned.version_id]
        task = task_of(planned, versions, uploads)
        seen = Seen(found.tags if found is not None else (), subject.index)
        for rule_set in (planned_with, found_later):
            around = EvaluationContext("k", versions, rule_set.minimum, bucket_context, now_ns)
            pairs = [pair for pair in rule_set.active() if pair.id == task.action_id]
            holds = any(assess(around, pair, subject, found).is_due(now_ns) for pair in pairs)
            stale = standing(rule_set, bucket_context.day_seconds).why_stale(task, now_ns=now_ns, seen=seen)
            assert (stale is None) == holds, (stale, task)
