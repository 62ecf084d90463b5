"""What is to be done with the versions and uploads of one key: the reference for every other way to plan.

Per version at most one action is taken at a time. The rest follows in a later pass, from what is there then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.core.lifecycle.assess import Assessment, BucketContext, Effect, EvaluationContext, Hold, assess
from tidegate.core.lifecycle.due import is_due
from tidegate.core.lifecycle.rules import ActionKind, RuleAction, RuleSet
from tidegate.core.lifecycle.subjects import Subject, Upload, Version, of_upload, subjects_of


@dataclass(frozen=True, slots=True)
class Planned:
    """One action on one version or upload. With a `hold` it is due but must wait. Days are counted from `since_ns`."""

    effect: Effect
    kind: ActionKind
    rule_id: str
    action_id: str
    key: str
    version_id: str
    due_ns: int
    became_due_ns: int
    since_ns: int
    storage_class: str = ""
    upload_id: str = ""
    hold: Hold | None = None


class ActionsByPrefix:
    """The actions of enabled rules, to be found by a key."""

    def __init__(self, rule_set: RuleSet) -> None:
        self._by_prefix: dict[str, list[RuleAction]] = {}
        for pair in rule_set.active():
            self._by_prefix.setdefault(pair.rule.filter.prefix or "", []).append(pair)

    def of(self, key: str) -> list[RuleAction]:
        """Those whose prefix the key has."""
        return [pair for prefix, found in self._by_prefix.items() if key.startswith(prefix) for pair in found]


class Planner:
    """Plans for many keys under the same rules at the same moment."""

    def __init__(self, rule_set: RuleSet, bucket_context: BucketContext, *, now_ns: int) -> None:
        self._minimum = rule_set.minimum
        self._bucket_context = bucket_context
        self._now_ns = now_ns
        self._actions = ActionsByPrefix(rule_set)

    def plan(self, key: str, versions: Sequence[Version], uploads: Sequence[Upload] = ()) -> list[Planned]:
        """For each of the key's versions, which come newest first, then for each upload.

        A version has two entries when its deletion is held and another action is taken meanwhile.
        """
        pairs = self._actions.of(key)
        if not pairs:
            return []
        context = EvaluationContext(key, versions, self._minimum, self._bucket_context, self._now_ns)
        plan: list[Planned] = []
        for version, subject in zip(versions, subjects_of(versions), strict=True):
            plan += plan_one(context, pairs, subject, version)
        for upload in uploads:
            plan += plan_one(context, pairs, of_upload(upload), None, upload_id=upload.upload_id)
        return plan


def decide(
    key: str,
    versions: Sequence[Version],
    uploads: Sequence[Upload],
    rule_set: RuleSet,
    bucket_context: BucketContext,
    *,
    now_ns: int,
) -> list[Planned]:
    """The plan for one key."""
    return Planner(rule_set, bucket_context, now_ns=now_ns).plan(key, versions, uploads)


def plan_one(
    context: EvaluationContext,
    pairs: Iterable[RuleAction],
    subject: Subject,
    version: Version | None,
    *,
    upload_id: str = "",
) -> Iterator[Planned]:
    """The first action in precedence that nothing holds, and before it the first of those that are held."""
    due = [
        assess(context, pair, subject, version)
        for pair in pairs
        if is_due(pair.action, subject, day_seconds=context.bucket_context.day_seconds, now_ns=context.now_ns)
    ]
    due = [assessment for assessment in due if assessment.applies]
    due.sort(key=lambda assessment: _precedence(assessment, context.bucket_context))
    held_shown = False
    for assessment in due:
        if assessment.hold is None or not held_shown:
            version_id = "" if version is None else version.version_id
            yield _planned(context.key, version_id, upload_id, assessment, subject)
        if assessment.hold is None:
            return
        held_shown = True


def _precedence(assessment: Assessment, bucket_context: BucketContext) -> tuple[int, int, int, int]:
    """Permanent deletion, then transition, then a delete marker; the colder class, the earlier time, the first rule."""
    if assessment.permanent:
        order = 0
    elif assessment.effect is Effect.TRANSITION:
        order = 1
    else:
        order = 2
    return (
        order,
        -bucket_context.coldness(assessment.pair.action.storage_class),
        assessment.due_ns or 0,
        assessment.pair.position,
    )


def _planned(key: str, version_id: str, upload_id: str, assessment: Assessment, subject: Subject) -> Planned:
    assert assessment.due_ns is not None and assessment.became_due_ns is not None
    pair = assessment.pair
    return Planned(
        effect=assessment.effect,
        kind=pair.action.kind,
        rule_id=pair.rule.id,
        action_id=pair.id,
        key=key,
        version_id=version_id,
        due_ns=assessment.due_ns,
        became_due_ns=assessment.became_due_ns,
        since_ns=subject.counted_from_ns,
        storage_class=pair.action.storage_class,
        upload_id=upload_id,
        hold=assessment.hold,
    )
