"""The header x-amz-expiration: when the current version of an object expires, and by which rule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote

from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, SECOND_NS, due_at
from tidegate.core.lifecycle.matching import matches
from tidegate.core.lifecycle.rules import ActionKind, RuleSet
from tidegate.core.lifecycle.subjects import Subject, Version, VersionRole

_EXPIRATIONS = frozenset({ActionKind.EXPIRATION_DAYS, ActionKind.EXPIRATION_DATE})
_FIRST_SECOND = int(datetime.min.replace(tzinfo=UTC).timestamp())
_LAST_SECOND = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())


def expiration_header(rule_set: RuleSet, key: str, version: Version) -> str | None:
    """For a current version that is no delete marker; None when no rule expires it.

    Days are real ones, whatever length the engine gives a day in a trial: clients read a calendar date.
    """
    subject = Subject(VersionRole.CURRENT, version.created_ns)
    found: list[tuple[int, str]] = []
    for pair in rule_set.active():
        if pair.action.kind in _EXPIRATIONS and matches(pair.rule.filter, key, version):
            due_ns = due_at(pair.action, subject, day_seconds=REAL_DAY_SECONDS)
            if due_ns is not None:
                found.append((due_ns, pair.rule.id))
    return _formatted(found)


def _formatted(found: Iterable[tuple[int, str]]) -> str | None:
    due_ns, rule_id = min(found, key=lambda entry: entry[0], default=(None, ""))
    # No calendar has a date for the end of two thousand million days.
    if due_ns is None or not _FIRST_SECOND <= due_ns // SECOND_NS <= _LAST_SECOND:
        return None
    date = format_datetime(datetime.fromtimestamp(due_ns // SECOND_NS, UTC), usegmt=True)
    return f'expiry-date="{date}", rule-id="{quote(rule_id, safe="")}"'
