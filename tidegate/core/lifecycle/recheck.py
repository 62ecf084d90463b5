"""Whether a task still holds right before it is carried out: the bucket's rules, as they are now, against the task.

Time goes by between the plan and the deed. A rule that was taken back, or an object that was tagged anew, must not lose
objects to what was planned before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.due import ROLES, due_at
from tidegate.core.lifecycle.matching import matches
from tidegate.core.lifecycle.rules import RuleAction, RuleSet
from tidegate.core.lifecycle.subjects import Subject, Version, VersionRole
from tidegate.core.lifecycle.tasks import ObjectTask, Stale


@dataclass(frozen=True, slots=True)
class Seen:
    """What the store shows of a task's version now: its tags, and how many noncurrent versions are newer than it. None
    where that was not asked for. What `is_gone` is left to the delete, which finds nothing."""

    tags: Pairs | None = None
    newer: int | None = None
    is_gone: bool = False


_NOT_LOOKED_AT = Seen()


class StandingRules:
    """The rules of a bucket at one moment; None stands for a bucket that has none (any more)."""

    def __init__(self, rules: RuleSet | None, *, day_seconds: float) -> None:
        self._by_id = {pair.id: pair for pair in rules.active()} if rules is not None else {}
        self._without_tags = {name: replace(pair.rule.filter, tags=()) for name, pair in self._by_id.items()}
        self._day_seconds = day_seconds
        # Most rules ask for nothing that a task does not say itself.
        self.looks_at_objects = any(_needs_tags(pair) or _needs_newer(pair) for pair in self._by_id.values())

    def needs_tags(self, task: ObjectTask) -> bool:
        pair = self._by_id.get(task.action_id)
        return pair is not None and _needs_tags(pair)

    def needs_newer(self, task: ObjectTask) -> bool:
        pair = self._by_id.get(task.action_id)
        return pair is not None and _needs_newer(pair)

    def why_stale(self, task: ObjectTask, *, now_ns: int, seen: Seen = _NOT_LOOKED_AT) -> Stale | None:
        """Why the task must not be carried out; None if it still holds."""
        pair = self._by_id.get(task.action_id)
        if pair is None or not self._is_due(pair, task, now_ns):
            return Stale.RULE
        if not matches(self._without_tags[task.action_id], task.key, _version_of(task, ())):
            return Stale.RULE
        if seen.is_gone:
            return None
        if _needs_tags(pair):
            if seen.tags is None:  # the rule did not ask for tags a moment ago
                return Stale.RULE
            if not matches(pair.rule.filter, task.key, _version_of(task, seen.tags)):
                return Stale.TAGS
        if _needs_newer(pair):
            if seen.newer is None:
                return Stale.RULE
            if seen.newer < (pair.action.newer or 0):
                return Stale.NEWER
        return None

    def _is_due(self, pair: RuleAction, task: ObjectTask, now_ns: int) -> bool:
        """What was due when it was planned is due, also by a clock that is behind the planner's."""
        due_ns = due_at(pair.action, _subject_of(task, pair), day_seconds=self._day_seconds)
        return due_ns is not None and due_ns <= max(now_ns, task.due_ns)


def _needs_tags(pair: RuleAction) -> bool:
    return bool(pair.rule.filter.tags)


def _needs_newer(pair: RuleAction) -> bool:
    return bool(pair.action.newer)


def _version_of(task: ObjectTask, tags: Pairs) -> Version | None:
    """As the task knows it; None for an upload."""
    if task.effect is Effect.ABORT_UPLOAD:
        return None
    is_marker = task.effect is Effect.REMOVE_MARKER
    return Version(task.version_id, task.created_ns, size=task.size or 0, tags=tags, is_marker=is_marker)


def _subject_of(task: ObjectTask, pair: RuleAction) -> Subject:
    """In a place to which the action applies, with as many newer versions as it keeps: those are counted elsewhere."""
    since_ns = task.since_ns or task.created_ns
    roles = ROLES[pair.action.kind]
    if VersionRole.NONCURRENT in roles:
        index = pair.action.newer or 0
        return Subject(VersionRole.NONCURRENT, task.created_ns, (since_ns,) * (index + 1), index)
    return Subject(min(roles), since_ns)
