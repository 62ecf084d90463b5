"""When an action is due: the only place that knows.

All times are Unix nanoseconds as integers, as in the metadata log, so that a plan made with 64-bit arithmetic
elsewhere is equal to the last digit. Whether something is due follows from when it is due.
"""

from __future__ import annotations

from tidegate.core.lifecycle.rules import Action, ActionKind, Filter
from tidegate.core.lifecycle.subjects import Subject, Version, VersionRole

SECOND_NS = 1_000_000_000
REAL_DAY_SECONDS = 86_400
_REAL_DAY_NS = REAL_DAY_SECONDS * SECOND_NS

_EXPIRING = frozenset({VersionRole.CURRENT, VersionRole.SOLE_MARKER})
_NONCURRENT = frozenset({VersionRole.NONCURRENT, VersionRole.NONCURRENT_MARKER})

# To what an action applies at all. A marker has no data to move; one that covers versions stays until they are gone.
ROLES: dict[ActionKind, frozenset[VersionRole]] = {
    ActionKind.EXPIRATION_DAYS: _EXPIRING,
    ActionKind.EXPIRATION_DATE: _EXPIRING,
    ActionKind.EXPIRED_OBJECT_DELETE_MARKER: frozenset({VersionRole.SOLE_MARKER}),
    ActionKind.NONCURRENT_DAYS: _NONCURRENT,
    ActionKind.NEWER_NONCURRENT_VERSIONS: _NONCURRENT,
    ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD: frozenset({VersionRole.UPLOAD}),
    ActionKind.TRANSITION_DAYS: frozenset({VersionRole.CURRENT}),
    ActionKind.TRANSITION_DATE: frozenset({VersionRole.CURRENT}),
    ActionKind.NONCURRENT_TRANSITION_DAYS: frozenset({VersionRole.NONCURRENT}),
}


def day_length_ns(day_seconds: float) -> int:
    return round(day_seconds * SECOND_NS)


def after_days(start_ns: int, days: int, *, day_seconds: float) -> int:
    """So many days later, rounded up to the next 00:00 UTC when a day is a real one; an exact midnight stays."""
    due_ns = start_ns + days * day_length_ns(day_seconds)
    if day_seconds != REAL_DAY_SECONDS:
        return due_ns
    return -(-due_ns // _REAL_DAY_NS) * _REAL_DAY_NS


def longest_wait_ns(days: int, *, day_seconds: float) -> int:
    """The most that can lie between the start of a count of days and its end: the rounding included."""
    rounding = _REAL_DAY_NS if day_seconds == REAL_DAY_SECONDS else 0
    return days * day_length_ns(day_seconds) + rounding


def due_at(action: Action, subject: Subject, *, day_seconds: float) -> int | None:
    """When the action is due, or None when it does not apply to the subject as things stand.

    A date is due on that date, also for what was created after it. A sole delete marker is due for clean-up from
    its creation on.
    """
    if subject.role not in ROLES[action.kind] or _spared(action, subject):
        return None
    if action.date is not None:
        return action.date * SECOND_NS
    if action.kind is ActionKind.EXPIRED_OBJECT_DELETE_MARKER:
        return subject.created_ns
    return after_days(subject.counted_from_ns, action.days or 0, day_seconds=day_seconds)


def is_due(action: Action, subject: Subject, *, day_seconds: float, now_ns: int) -> bool:
    due_ns = due_at(action, subject, day_seconds=day_seconds)
    return due_ns is not None and due_ns <= now_ns


def why_never_due(action: Action, subject: Subject) -> str | None:
    """Why the action does not apply to the subject as things stand, in words; None when it does."""
    roles = ROLES[action.kind]
    if subject.role not in roles:
        return f"it applies to {' or '.join(sorted(roles))}, and this is {subject.role}"
    if _spared(action, subject):
        return f"it leaves the newest {action.newer} noncurrent versions alone, and this is number {subject.index + 1}"
    return None


def became_due_at(action: Action, rule_filter: Filter, subject: Subject, version: Version | None, due_ns: int) -> int:
    """When the action came to be due: the later of its due time and of the event that made the rule match.

    Such events are the creation of an object after the rule's date, a tag set late, another version's removal, and
    the demotion that made a version one too many. `version` is None for an upload.
    """
    events = [due_ns, subject.created_ns]
    if action.newer:
        events.append(subject.demotions[subject.index - action.newer])
    if version is not None:
        events.append(version.moved_ns)
        if rule_filter.tags:
            events.append(version.tagged_ns)
    return max(events)


def _spared(action: Action, subject: Subject) -> bool:
    """Whether it is among the newest noncurrent versions, which the action leaves alone."""
    return action.newer is not None and subject.index < action.newer
