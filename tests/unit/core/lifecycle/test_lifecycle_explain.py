"""Explanations: each rule's verdict in words, in agreement with the plan."""

from __future__ import annotations

from hypothesis import given, settings
from lifecycle_cases import (
    DAY,
    MARKER_CLEANUP,
    MIDNIGHT,
    abort,
    expiration,
    noncurrent,
    rule,
    rules,
    situations,
    transition,
    version,
)

from tidegate.core.lifecycle.assess import BucketContext, Effect, Hold
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.explain import explain
from tidegate.core.lifecycle.subjects import Upload, Versioning, VersionRole


def verdicts(rule_set, versions, now=MIDNIGHT, **bucket_context):
    return explain("logs/x", versions, [], rule_set, BucketContext(**bucket_context), now_ns=now)[0].verdicts


def test_a_rule_that_matches_tells_its_due_time_before_and_after_it():
    early, late = (
        verdicts(rules(rule(expiration(3), prefix="logs/")), [version(created=MIDNIGHT)], now=MIDNIGHT + day * DAY)
        for day in (1, 3)
    )
    assert (early[0].obstacles, early[0].due_ns, early[0].is_due) == ((), MIDNIGHT + 3 * DAY, False)
    assert late[0].is_due


def test_a_rule_that_does_not_match_tells_every_predicate_that_fails():
    fussy = rule(expiration(1), prefix="Logs/", tags=(("a", "1"), ("b", "2")), size_greater_than=10, size_less_than=20)
    (verdict,) = verdicts(rules(fussy), [version(size=10, tags=(("a", "3"),))])
    assert verdict.obstacles == (
        "the key does not begin with 'Logs/'",
        "tag 'a' must be '1' and is '3'",
        "tag 'b' must be '2' and is not set",
        "10 bytes are not more than 10",
    )
    assert verdict.due_ns is None


def test_a_disabled_rule_is_shown_as_such():
    (verdict,) = verdicts(rules(rule(expiration(1), enabled=False)), [version()], now=MIDNIGHT + 9 * DAY)
    assert verdict.obstacles == ("the rule is disabled",)
    assert not verdict.is_due


def test_a_transition_to_a_class_whose_location_was_removed_says_so():
    (verdict,) = verdicts(rules(rule(transition(1, "GLACIER"))), [version()], now=MIDNIGHT + 9 * DAY, classes=())
    assert verdict.obstacles == ("no location serves the storage class GLACIER",)
    assert not verdict.is_due


def test_an_action_for_something_else_says_so():
    given = rules(rule(noncurrent(1), MARKER_CLEANUP, abort(1)))
    assert [verdict.obstacles for verdict in verdicts(given, [version()])] == [
        ("it applies to noncurrent or noncurrent-marker, and this is current",),
        ("it applies to sole-marker, and this is current",),
        ("it applies to upload, and this is current",),
    ]


def test_a_version_among_those_that_are_kept_is_told_its_number():
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY)]
    kept = explain("k", versions, [], rules(rule(noncurrent(1, newer=3))), BucketContext(), now_ns=MIDNIGHT)[1]
    assert kept.verdicts[0].obstacles == ("it leaves the newest 3 noncurrent versions alone, and this is number 1",)


def test_a_transition_tells_of_the_class_and_the_size_in_its_way():
    (verdict,) = verdicts(rules(rule(transition(1))), [version(size=5, storage_class="DEEP_ARCHIVE")])
    assert verdict.obstacles == (
        "it is in DEEP_ARCHIVE, from where nothing moves to GLACIER",
        "5 bytes are less than the 131072 from which objects move",
    )


def test_a_hold_is_shown_with_what_is_done_instead():
    versions = [version("v2", MIDNIGHT), version("v1", MIDNIGHT - DAY, legal_hold=True)]
    bucket_context = BucketContext(Versioning.ENABLED)
    held = explain("k", versions, [], rules(rule(noncurrent(1))), bucket_context, now_ns=MIDNIGHT + 9 * DAY)[1]
    assert held.role is VersionRole.NONCURRENT
    assert held.verdicts[0].hold is Hold.OBJECT_LOCK
    assert [entry.hold for entry in held.planned] == [Hold.OBJECT_LOCK]


def test_uploads_are_explained_after_the_versions():
    uploads = [Upload("u", MIDNIGHT)]
    both = explain("k", [version()], uploads, rules(rule(abort(1))), BucketContext(), now_ns=MIDNIGHT + DAY)
    assert [entry.role for entry in both] == [VersionRole.CURRENT, VersionRole.UPLOAD]
    assert both[1].planned[0].effect is Effect.ABORT_UPLOAD


@settings(max_examples=200, deadline=None)
@given(situations())
def test_the_explanation_and_the_plan_agree(situation):
    versions, uploads, rule_set, bucket_context, now = situation
    explained = explain("k", versions, uploads, rule_set, bucket_context, now_ns=now)
    planned = decide("k", versions, uploads, rule_set, bucket_context, now_ns=now)
    assert [entry for explanation in explained for entry in explanation.planned] == planned
    for explanation in explained:
        assert bool(explanation.planned) == any(verdict.is_due for verdict in explanation.verdicts)
