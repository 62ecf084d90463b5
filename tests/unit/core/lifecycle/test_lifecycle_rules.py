"""Rules as values: their stored form, their ids and their hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from lifecycle_cases import abort, expiration, noncurrent, noncurrent_transition, rule, rule_sets, rules, transition

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.rules import FilterForm, RuleSet


@given(rule_sets())
def test_the_stored_form_gives_the_same_rules_back(rule_set):
    assert RuleSet.from_json(rule_set.to_json()) == rule_set
    assert RuleSet.from_json(rule_set.to_json()).to_json() == rule_set.to_json()


def test_the_source_is_stored_with_the_rules():
    rule_set = replace(rules(rule(expiration(1))), source="<a>é\r\n</a>")
    assert RuleSet.from_json(rule_set.to_json()).source == "<a>é\r\n</a>"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rules":[{}],"minimum":"all_storage_classes_128K","source":""}'])
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(InvalidInput):
        RuleSet.from_json(text)


def test_actions_are_named_after_their_rule_kind_and_class():
    given = rules(
        rule(expiration(1), transition(1, "GLACIER"), transition(2, "DEEP_ARCHIVE"), id="a/b"),
        rule(noncurrent(1, newer=2), noncurrent_transition(1), id="c"),
        rule(abort(1), id="off", enabled=False),
    )
    assert [pair.id for pair in given.flattened()] == [
        "a/b/ExpirationDays",
        "a/b/TransitionDays/GLACIER",
        "a/b/TransitionDays/DEEP_ARCHIVE",
        "c/NewerNoncurrentVersions",
        "c/NoncurrentTransitionDays/GLACIER",
        "off/AbortIncompleteMultipartUpload",
    ]
    assert [pair.position for pair in given.flattened()] == list(range(6))
    assert [pair.rule.id for pair in given.active()] == ["a/b"] * 3 + ["c"] * 2


def test_a_hash_depends_on_what_a_rule_does_and_not_on_how_it_is_named_or_written():
    base = rule(expiration(1), prefix="a", tags=(("k", "v"), ("l", "w")))
    same = [
        replace(base, id="other"),
        replace(base, filter=replace(base.filter, form=FilterForm.AND)),
        replace(base, filter=replace(base.filter, tags=base.filter.tags[::-1])),
    ]
    different = [
        replace(base, enabled=False),
        replace(base, actions=(expiration(2),)),
        replace(base, filter=replace(base.filter, prefix="b")),
        replace(base, filter=replace(base.filter, tags=(("k", "v"), ("l", "x")))),
        replace(base, filter=replace(base.filter, size_less_than=9)),
    ]
    assert {other.digest() for other in same} == {base.digest()}
    assert len({base.digest(), *(other.digest() for other in different)}) == 1 + len(different)
    assert rules(base).digest() == rules(same[0]).digest()


def test_no_prefix_and_an_empty_prefix_do_the_same():
    assert rule(expiration(1), prefix="").digest() == rule(expiration(1), prefix=None).digest()


def test_tags_are_needed_only_where_an_enabled_rule_asks_for_them():
    assert rules(rule(expiration(1), tags=(("a", "1"),))).needs_tags
    assert not rules(rule(expiration(1), tags=(("a", "1"),), enabled=False), rule(expiration(1))).needs_tags
