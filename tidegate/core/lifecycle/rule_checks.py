"""What S3 demands of rules that are well-formed: limits, and actions and filters that go together.

`strict` adds what S3 demands and Tidegate otherwise does not: at least 30 days before the infrequent-access classes
(S3's price list, not a property of a store, and in the way of trials), and one way of giving prefixes in the whole
configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, FilterForm, Rule
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import LONGEST_KEY

MOST_RULES = 1000
LONGEST_RULE_ID = 255
MOST_NEWER_VERSIONS = 100
LARGEST_SIZE = 1_099_511_627_776_000
MOST_DAYS = 2**31 - 1
_INFREQUENT_ACCESS = frozenset({"STANDARD_IA", "ONEZONE_IA"})
_INFREQUENT_ACCESS_DAYS = 30

_TRANSITIONS = frozenset({ActionKind.TRANSITION_DAYS, ActionKind.TRANSITION_DATE})
_EXPIRATIONS = frozenset({ActionKind.EXPIRATION_DAYS, ActionKind.EXPIRATION_DATE})
_NONCURRENT_EXPIRATIONS = frozenset({ActionKind.NONCURRENT_DAYS, ActionKind.NEWER_NONCURRENT_VERSIONS})
_DAY_ELEMENTS = {
    ActionKind.EXPIRATION_DAYS: ("Days", "Expiration", 1),
    ActionKind.NONCURRENT_DAYS: ("NoncurrentDays", "NoncurrentVersionExpiration", 1),
    ActionKind.NEWER_NONCURRENT_VERSIONS: ("NoncurrentDays", "NoncurrentVersionExpiration", 1),
    ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD: ("DaysAfterInitiation", "AbortIncompleteMultipartUpload", 1),
    ActionKind.TRANSITION_DAYS: ("Days", "Transition", 0),
    ActionKind.NONCURRENT_TRANSITION_DAYS: ("NoncurrentDays", "NoncurrentVersionTransition", 0),
}
# Neither a marker nor an upload has tags or a size.
_WITHOUT_OBJECT = frozenset({ActionKind.EXPIRED_OBJECT_DELETE_MARKER, ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD})


def check_rules(rules: Sequence[Rule], *, storage_classes: Sequence[str], strict: bool) -> None:
    """Raises an `S3Error` with S3's code for the first thing that is wrong. Rules without an id will be given one."""
    if len(rules) > MOST_RULES:
        raise S3Error("InvalidRequest", f"A lifecycle configuration has at most {MOST_RULES} rules.")
    ids: set[str] = set()
    for rule in rules:
        if len(rule.id) > LONGEST_RULE_ID:
            raise _argument(f"The ID of a rule has at most {LONGEST_RULE_ID} characters.")
        if rule.id and rule.id in ids:
            raise _argument("Rule ID must be unique. Found same ID for more than one rule.")
        ids.add(rule.id)
        check_filter(rule.filter)
        for action in rule.actions:
            _check_action(action, rule.filter, strict=strict)
        _check_transitions(rule, _TRANSITIONS, _EXPIRATIONS, storage_classes)
        noncurrent = frozenset({ActionKind.NONCURRENT_TRANSITION_DAYS})
        _check_transitions(rule, noncurrent, _NONCURRENT_EXPIRATIONS, storage_classes)
    if strict and len({rule.filter.form is FilterForm.RULE_PREFIX for rule in rules}) > 1:
        raise _request("Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.")


def check_filter(rule_filter: Filter) -> None:
    """Its limits: of a prefix, of tags, of sizes."""
    if len((rule_filter.prefix or "").encode("utf-8", "surrogatepass")) > LONGEST_KEY:
        raise _request(f"The maximum size of a prefix is {LONGEST_KEY}.")
    names = [name for name, _ in rule_filter.tags]
    if len(set(names)) != len(names):
        raise _request("Duplicate Tag Keys are not allowed.")
    for name, value in rule_filter.tags:
        if not 1 <= len(name) <= 128 or len(value) > 256:
            raise _request("A tag has a key of 1 to 128 characters and a value of at most 256.")
    greater, less = rule_filter.size_greater_than, rule_filter.size_less_than
    for name, size in (("ObjectSizeGreaterThan", greater), ("ObjectSizeLessThan", less)):
        if size is not None and not 0 <= size <= LARGEST_SIZE:
            raise _request(f"'{name}' should be between 0 and {LARGEST_SIZE}.")
    # Both bounds are exclusive: no size lies between two neighbours, and none below zero.
    if less is not None and less - (-1 if greater is None else greater) < 2:
        raise _request("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.")


def _check_action(action: Action, rule_filter: Filter, *, strict: bool) -> None:
    if action.kind in _WITHOUT_OBJECT:
        if rule_filter.tags:
            raise _request(f"{action.kind} cannot be specified with Tags.")
        if rule_filter.has_size:
            raise _request(f"{action.kind} cannot be specified with Object Size.")
    if action.days is not None:
        element, parent, least = _DAY_ELEMENTS[action.kind]
        if action.days < least:
            wanted = "a positive integer" if least else "nonnegative"
            raise _argument(f"'{element}' for {parent} action must be {wanted}.")
        if action.days > MOST_DAYS:
            raise _argument(f"'{element}' for {parent} action must be at most {MOST_DAYS}.")
        if strict and action.storage_class in _INFREQUENT_ACCESS and action.days < _INFREQUENT_ACCESS_DAYS:
            raise _argument(
                f"'{element}' in {parent} action must be greater than or equal to {_INFREQUENT_ACCESS_DAYS} "
                f"for storageClass '{action.storage_class}'."
            )
    if action.newer is not None and not 1 <= action.newer <= MOST_NEWER_VERSIONS:
        raise _argument(f"'NewerNoncurrentVersions' must be an integer from 1 to {MOST_NEWER_VERSIONS}.")


def _check_transitions(
    rule: Rule, transitions: frozenset[ActionKind], expirations: frozenset[ActionKind], storage_classes: Sequence[str]
) -> None:
    """Moves to ever colder classes, ever later, and all before the end; by days or by dates, not both."""
    moves = [action for action in rule.actions if action.kind in transitions]
    ends = [action for action in rule.actions if action.kind in expirations]
    classes = [move.storage_class for move in moves]
    if len(set(classes)) != len(classes):
        raise _request("'StorageClass' must be different for the transition actions of a rule.")
    if len({action.date is None for action in (*moves, *ends)}) > 1:
        raise _request(f"Found mixed 'Date' and 'Days' based actions in the lifecycle rule{_named(rule)}.")
    moves.sort(key=lambda move: storage_classes.index(move.storage_class))
    for warmer, colder in pairwise(moves):
        if _when(colder) <= _when(warmer):
            raise _argument(
                f"The transition to '{colder.storage_class}' must be later than the one to "
                f"'{warmer.storage_class}' in the lifecycle rule{_named(rule)}."
            )
    if any(_when(end) <= _when(move) for end in ends for move in moves):
        raise _argument(f"The expiration must be later than every transition in the lifecycle rule{_named(rule)}.")


def _when(action: Action) -> int:
    return (action.days if action.date is None else action.date) or 0


def _named(rule: Rule) -> str:
    return f" '{rule.id}'" if rule.id else f" with the prefix '{rule.filter.prefix or ''}'"


def _argument(message: str) -> S3Error:
    return S3Error("InvalidArgument", message)


def _request(message: str) -> S3Error:
    return S3Error("InvalidRequest", message)
