"""Which objects a rule's filter matches, and which of its predicates an object fails."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.lifecycle.rules import Filter
from tidegate.core.lifecycle.subjects import Version


def failures(rule_filter: Filter, key: str, version: Version | None) -> Iterator[str]:
    """The predicates that the object fails, in words; none when it matches.

    A delete marker and an upload (`version` None) have neither tags nor a size: a filter that asks for either never
    matches them.
    """
    if not key.startswith(rule_filter.prefix or ""):
        yield f"the key does not begin with {rule_filter.prefix!r}"
    if version is None or version.is_marker:
        what = "an upload" if version is None else "a delete marker"
        if rule_filter.tags:
            yield f"{what} has no tags"
        if rule_filter.has_size:
            yield f"{what} has no size"
        return
    tags = dict(version.tags)
    for name, wanted in rule_filter.tags:
        if tags.get(name) != wanted:
            found = f"is {tags[name]!r}" if name in tags else "is not set"
            yield f"tag {name!r} must be {wanted!r} and {found}"
    if rule_filter.size_greater_than is not None and version.size <= rule_filter.size_greater_than:
        yield f"{version.size} bytes are not more than {rule_filter.size_greater_than}"
    if rule_filter.size_less_than is not None and version.size >= rule_filter.size_less_than:
        yield f"{version.size} bytes are not less than {rule_filter.size_less_than}"


def matches(rule_filter: Filter, key: str, version: Version | None) -> bool:
    if not rule_filter.tags and not rule_filter.has_size:  # as in most rules
        return key.startswith(rule_filter.prefix or "")
    return next(failures(rule_filter, key, version), None) is None
