"""Which listed versions need their tags looked up: each costs a request of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.lifecycle.due import SECOND_NS, day_length_ns
from tidegate.core.lifecycle.rules import RuleAction
from tidegate.core.listings import ListedVersion


@dataclass(frozen=True, slots=True)
class TagNeed:
    """What an action that asks for tags leaves open without them. What was created after `before_ns` is not due."""

    prefix: str
    size_greater_than: int | None
    size_less_than: int | None
    before_ns: int

    def is_for(self, version: ListedVersion) -> bool:
        return (
            not version.is_marker
            and version.key.startswith(self.prefix)
            and (self.size_greater_than is None or version.size > self.size_greater_than)
            and (self.size_less_than is None or version.size < self.size_less_than)
            and version.last_modified * SECOND_NS <= self.before_ns
        )


def tag_needs(pairs: Iterable[RuleAction], *, day_seconds: float, now_ns: int) -> tuple[TagNeed, ...]:
    """Of the actions of a bucket. A count of days begins with the version's creation at the earliest."""
    needs = set()
    for pair in pairs:
        action, where = pair.action, pair.rule.filter
        if not where.tags or (action.date is not None and action.date * SECOND_NS > now_ns):
            continue
        before_ns = now_ns - (action.days or 0) * day_length_ns(day_seconds)
        needs.add(TagNeed(where.prefix or "", where.size_greater_than, where.size_less_than, before_ns))
    return tuple(needs)
