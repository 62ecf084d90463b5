"""A version goes where the rules send it that stood when it was written."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.lifecycle.rules import Filter
from tidegate.core.replication.rules import MOST_FORMER, ReplicationRule, ReplicationRules

NEAR = ReplicationRule("near", 1, True, Filter(), "copies", ("near",))
FAR = ReplicationRule("far", 2, True, Filter(), "others", ("far",))


def test_rules_that_are_changed_hold_for_what_was_written_before() -> None:
    first = ReplicationRules((NEAR,)).after(None, now=100.0)
    second = ReplicationRules((replace(NEAR, sites=("near", "far")),)).after(first, now=200.0)
    third = ReplicationRules((FAR,)).after(second, now=300.0)
    assert third.targets("k", written_at=99.0) == {}
    assert third.targets("k", written_at=100.0) == {"near": "copies"}
    assert third.targets("k", written_at=199.0) == {"near": "copies"}
    assert third.targets("k", written_at=200.0) == {"near": "copies", "far": "copies"}
    assert third.targets("k", written_at=300.0) == {"far": "others"}
    assert third.existing_targets("k") == {"far": "others"}


def test_a_later_rule_of_higher_priority_leaves_earlier_versions_to_the_rule_before_it() -> None:
    rules = ReplicationRules((replace(NEAR, since=100.0), replace(NEAR, bucket="new", priority=2, since=200.0)))
    assert rules.targets("k", written_at=150.0) == {"near": "copies"}
    assert rules.targets("k", written_at=200.0) == {"near": "new"}


def test_rules_that_are_put_again_as_they_were_keep_their_time_and_leave_nothing_behind() -> None:
    first = ReplicationRules((NEAR,)).after(None, now=100.0)
    again = ReplicationRules((replace(NEAR, id="other"),)).after(first, now=200.0)
    assert [rule.since for rule in again.rules] == [100.0] and again.former == ()


def test_so_many_former_configurations_are_kept_and_written_down() -> None:
    rules = ReplicationRules((NEAR,)).after(None, now=0.0)
    for number in range(1, MOST_FORMER + 3):
        rules = ReplicationRules((replace(NEAR, bucket=f"copies-{number}"),)).after(rules, now=float(number))
    assert [former.until for former in rules.former] == [float(number) for number in range(3, MOST_FORMER + 3)]
    assert ReplicationRules.from_json(rules.to_json()) == rules


def test_tags_are_needed_as_long_as_former_rules_ask_for_them() -> None:
    first = ReplicationRules((replace(NEAR, filter=Filter(tags=(("a", "1"),))),)).after(None, now=100.0)
    assert ReplicationRules((FAR,)).after(first, now=200.0).needs_tags
    assert not ReplicationRules((FAR,)).needs_tags
