"""The lifecycle rules of a bucket as values: filters, actions, rules, and the set that a bucket has.

They say what was asked for, not whether it is allowed (`rule_checks`) nor when it happens (`due`). The set keeps
the XML as it was put, so that a reader gets back what the writer gave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple, Self

from tidegate.core.errors import InvalidInput
from tidegate.core.events import Pairs

# A bucket's rules stand in the tables under this and the bucket's uid.
LIFECYCLE = "lc:"

# S3's own classes that objects can move to, from the warmest to the coldest: no object moves back up.
STORAGE_CLASSES = ("STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE")


class ActionKind(StrEnum):
    """`NewerNoncurrentVersions` is a NoncurrentVersionExpiration that also keeps a number of noncurrent versions."""

    EXPIRATION_DAYS = "ExpirationDays"
    EXPIRATION_DATE = "ExpirationDate"
    EXPIRED_OBJECT_DELETE_MARKER = "ExpiredObjectDeleteMarker"
    NONCURRENT_DAYS = "NoncurrentDays"
    NEWER_NONCURRENT_VERSIONS = "NewerNoncurrentVersions"
    ABORT_INCOMPLETE_MULTIPART_UPLOAD = "AbortIncompleteMultipartUpload"
    TRANSITION_DAYS = "TransitionDays"
    TRANSITION_DATE = "TransitionDate"
    NONCURRENT_TRANSITION_DAYS = "NoncurrentTransitionDays"

    @property
    def is_transition(self) -> bool:
        return self in _TRANSITIONS


_TRANSITIONS = frozenset(
    {ActionKind.TRANSITION_DAYS, ActionKind.TRANSITION_DATE, ActionKind.NONCURRENT_TRANSITION_DAYS}
)


class TransitionMinimum(StrEnum):
    """The header x-amz-transition-default-minimum-object-size: which small objects transitions leave alone."""

    ALL_CLASSES = "all_storage_classes_128K"
    VARIES = "varies_by_storage_class"


class FilterForm(StrEnum):
    """How the filter was written, for writing it again."""

    RULE_PREFIX = "rule-prefix"
    FILTER = "filter"
    AND = "and"


@dataclass(frozen=True, slots=True)
class Action:
    """`date` is in Unix seconds; `newer` is how many noncurrent versions stay untouched (None: no such limit)."""

    kind: ActionKind
    days: int | None = None
    date: int | None = None
    newer: int | None = None
    storage_class: str = ""

    def content(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "days": self.days,
            "date": self.date,
            "newer": self.newer,
            "storage_class": self.storage_class,
        }


@dataclass(frozen=True, slots=True)
class Filter:
    """What an object must be like. Sizes are exclusive bounds; `prefix` None was not given and means any key."""

    prefix: str | None = None
    tags: Pairs = ()
    size_greater_than: int | None = None
    size_less_than: int | None = None
    form: FilterForm = FilterForm.FILTER

    @property
    def has_size(self) -> bool:
        return self.size_greater_than is not None or self.size_less_than is not None

    def content(self) -> dict[str, Any]:
        """What it means: equal for filters that match the same objects, however they were written."""
        return {
            "prefix": self.prefix or "",
            "tags": sorted(map(list, self.tags)),
            "size_greater_than": self.size_greater_than,
            "size_less_than": self.size_less_than,
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """`id_generated` tells that the writer gave no id."""

    id: str
    enabled: bool
    filter: Filter
    actions: tuple[Action, ...]
    id_generated: bool = False

    def digest(self) -> str:
        """Of what the rule does, not of its name."""
        return digest(
            {
                "enabled": self.enabled,
                "filter": self.filter.content(),
                "actions": [action.content() for action in self.actions],
            }
        )


class RuleAction(NamedTuple):
    """One action with the rule it belongs to. `position` is the action's place in the whole set."""

    rule: Rule
    action: Action
    position: int

    @property
    def id(self) -> str:
        """Stable while the rule keeps its id: RULE/KIND, with /CLASS for a transition."""
        name = f"{self.rule.id}/{self.action.kind.value}"
        return f"{name}/{self.action.storage_class}" if self.action.storage_class else name

    def content(self) -> dict[str, Any]:
        return {"filter": self.rule.filter.content(), **self.action.content()}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A bucket's lifecycle configuration. `source` is the XML as it was put; "" when there was none."""

    rules: tuple[Rule, ...] = ()
    minimum: TransitionMinimum = TransitionMinimum.ALL_CLASSES
    source: str = ""

    def flattened(self) -> Iterator[RuleAction]:
        position = 0
        for rule in self.rules:
            for action in rule.actions:
                yield RuleAction(rule, action, position)
                position += 1

    def active(self) -> tuple[RuleAction, ...]:
        """The actions of the rules that are enabled."""
        return tuple(pair for pair in self.flattened() if pair.rule.enabled)

    @property
    def needs_tags(self) -> bool:
        """Whether the tags of objects must be known at all."""
        return any(pair.rule.filter.tags for pair in self.active())

    @property
    def has_transitions(self) -> bool:
        """Whether the storage classes of objects must be known at all."""
        return any(pair.action.kind.is_transition for pair in self.active())

    def digest(self) -> str:
        """Of what the set does: neither names of rules nor the way it was written count."""
        return digest({"minimum": self.minimum.value, "rules": [rule.digest() for rule in self.rules]})

    def to_json(self) -> str:
        values = {
            "rules": [_rule_values(rule) for rule in self.rules],
            "minimum": self.minimum.value,
            "source": self.source,
        }
        return json.dumps(values, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            values = json.loads(text)
            rules = tuple(_rule_of(rule) for rule in values["rules"])
            return cls(rules, TransitionMinimum(values["minimum"]), values["source"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"not a stored lifecycle configuration: {error!r}") from None


def digest(content: Any) -> str:
    """A hash of any JSON value that does not depend on the order of its objects' fields."""
    return sha256(json.dumps(content, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


def _rule_values(rule: Rule) -> dict[str, Any]:
    written = rule.filter
    return {
        "id": rule.id,
        "enabled": rule.enabled,
        "filter": {
            "prefix": written.prefix,
            "tags": [list(tag) for tag in written.tags],
            "size_greater_than": written.size_greater_than,
            "size_less_than": written.size_less_than,
            "form": written.form.value,
        },
        "actions": [action.content() for action in rule.actions],
        "id_generated": rule.id_generated,
    }


def _rule_of(values: dict[str, Any]) -> Rule:
    written = values["filter"]
    return Rule(
        id=values["id"],
        enabled=values["enabled"],
        filter=Filter(
            prefix=written["prefix"],
            tags=tuple((key, value) for key, value in written["tags"]),
            size_greater_than=written["size_greater_than"],
            size_less_than=written["size_less_than"],
            form=FilterForm(written["form"]),
        ),
        actions=tuple(_action_of(action) for action in values["actions"]),
        id_generated=values["id_generated"],
    )


def _action_of(values: dict[str, Any]) -> Action:
    return Action(
        kind=ActionKind(values["kind"]),
        days=values["days"],
        date=values["date"],
        newer=values["newer"],
        storage_class=values["storage_class"],
    )
