"""What S3 demands of replication rules that are well-formed: limits, and rules that do not contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidegate.core.lifecycle.rule_checks import LONGEST_RULE_ID, check_filter
from tidegate.core.lifecycle.rules import FilterForm
from tidegate.core.replication.rules import ReplicationRule
from tidegate.core.s3errors import S3Error

MOST_RULES = 1000
HIGHEST_PRIORITY = 2**31 - 1


def check_rules(rules: Sequence[ReplicationRule]) -> None:
    """Raises an `S3Error` with S3's code for the first thing that is wrong. Rules without an id will be given one."""
    if len(rules) > MOST_RULES:
        raise _request(f"The number of replication rules must not exceed the allowed limit of {MOST_RULES} rules.")
    ids: set[str] = set()
    for rule in rules:
        if len(rule.id) > LONGEST_RULE_ID:
            raise _argument(f"The ID of a rule has at most {LONGEST_RULE_ID} characters.")
        if rule.id and rule.id in ids:
            raise _argument("Rule ID must be unique. Found same ID for more than one rule.")
        ids.add(rule.id)
        _check_rule(rule)
    if len({_is_of_old_form(rule) for rule in rules}) > 1:
        raise _request("Rules with a Filter and rules in the old form, with a Prefix alone, cannot be used together.")
    if _is_of_old_form(rules[0]):
        _check_prefixes(rules)
    else:
        _check_priorities(rules)


def _check_rule(rule: ReplicationRule) -> None:
    check_filter(rule.filter)
    if not 0 <= rule.priority <= HIGHEST_PRIORITY:
        raise _argument(f"The Priority of a rule must be from 0 to {HIGHEST_PRIORITY}.")
    if rule.delete_markers and rule.filter.tags:
        raise _request("Delete marker replication is not supported if any Tag filter is specified.")


def _is_of_old_form(rule: ReplicationRule) -> bool:
    return rule.filter.form is FilterForm.RULE_PREFIX


def _check_priorities(rules: Sequence[ReplicationRule]) -> None:
    """Of two rules for a site it must be clear which one decides."""
    taken: set[tuple[str, int]] = set()
    for rule in rules:
        for site in rule.sites:
            if (site, rule.priority) in taken:
                raise _request(
                    f"Found duplicate priority {rule.priority} in rules for the site {site}. "
                    "Each rule for a site must have a priority of its own."
                )
            taken.add((site, rule.priority))


def _check_prefixes(rules: Sequence[ReplicationRule]) -> None:
    """Rules without priorities must not meet. In order, a prefix stands right before those that it begins."""
    prefixes: dict[str, list[str]] = {}
    for rule in rules:
        for site in rule.sites:
            prefixes.setdefault(site, []).append(rule.filter.prefix or "")
    for site, found in prefixes.items():
        for first, second in pairwise(sorted(found)):
            if second.startswith(first):
                raise _request(f"Found overlapping prefixes {first!r} and {second!r} in rules for the site {site}.")


def _argument(message: str) -> S3Error:
    return S3Error("InvalidArgument", message)


def _request(message: str) -> S3Error:
    return S3Error("InvalidRequest", message)
