"""Why something does or does not happen to an object: every rule's verdict on each of its versions and uploads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.lifecycle.assess import BucketContext, Effect, EvaluationContext, Hold, assess
from tidegate.core.lifecycle.decide import Planned, plan_one
from tidegate.core.lifecycle.rules import ActionKind, RuleAction, RuleSet
from tidegate.core.lifecycle.subjects import Subject, Upload, Version, VersionRole, of_upload, subjects_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """One action of one rule. Without `obstacles` it applies, and is taken from `due_ns` on unless something holds it
    or another action goes before it."""

    rule_id: str
    action_id: str
    kind: ActionKind
    effect: Effect
    obstacles: tuple[str, ...]
    due_ns: int | None
    became_due_ns: int | None
    is_due: bool
    hold: Hold | None
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One version or upload: what it is, what each action says of it, and what would be done now."""

    version_id: str
    upload_id: str
    role: VersionRole
    created_ns: int
    verdicts: tuple[Verdict, ...]
    planned: tuple[Planned, ...]


def explain(
    key: str,
    versions: Sequence[Version],
    uploads: Sequence[Upload],
    rule_set: RuleSet,
    bucket_context: BucketContext,
    *,
    now_ns: int,
) -> list[Explanation]:
    """In the order and with the plan of `decide`; rules that are disabled are explained, too."""
    context = EvaluationContext(key, versions, rule_set.minimum, bucket_context, now_ns)
    pairs = tuple(rule_set.flattened())
    explained = [
        _explanation(context, pairs, subject, version, "")
        for version, subject in zip(versions, subjects_of(versions), strict=True)
    ]
    explained += [_explanation(context, pairs, of_upload(upload), None, upload.upload_id) for upload in uploads]
    return explained


def _explanation(
    context: EvaluationContext, pairs: tuple[RuleAction, ...], subject: Subject, version: Version | None, upload_id: str
) -> Explanation:
    return Explanation(
        version_id="" if version is None else version.version_id,
        upload_id=upload_id,
        role=subject.role,
        created_ns=subject.created_ns,
        verdicts=tuple(_verdict(context, pair, subject, version) for pair in pairs),
        planned=tuple(plan_one(context, pairs, subject, version, upload_id=upload_id)),
    )


def _verdict(context: EvaluationContext, pair: RuleAction, subject: Subject, version: Version | None) -> Verdict:
    assessment = assess(context, pair, subject, version)
    return Verdict(
        rule_id=pair.rule.id,
        action_id=pair.id,
        kind=pair.action.kind,
        effect=assessment.effect,
        obstacles=assessment.obstacles,
        due_ns=assessment.due_ns if assessment.applies else None,
        became_due_ns=assessment.became_due_ns if assessment.applies else None,
        is_due=assessment.is_due(context.now_ns),
        hold=assessment.hold if assessment.applies else None,
        storage_class=pair.action.storage_class,
    )
