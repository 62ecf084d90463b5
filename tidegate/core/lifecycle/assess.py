"""One action against one version or upload: whether it applies, when it is due, what it does and what holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, became_due_at, due_at, why_never_due
from tidegate.core.lifecycle.matching import failures
from tidegate.core.lifecycle.rules import STORAGE_CLASSES, RuleAction, TransitionMinimum
from tidegate.core.lifecycle.subjects import Subject, Version, Versioning, VersionRole

SMALL_OBJECT_BYTES = 128 * 1024
_CLASSES_FOR_SMALL_OBJECTS = frozenset({"GLACIER", "DEEP_ARCHIVE"})


class Effect(StrEnum):
    """What is done. `EXPIRE` adds a delete marker; on a suspended bucket it takes the null version's place."""

    DELETE = "deleteObject"
    EXPIRE = "expireObject"
    REMOVE_MARKER = "removeDeleteMarker"
    ABORT_UPLOAD = "abortUpload"
    TRANSITION = "transitionObject"


class Hold(StrEnum):
    """Why a due action is not taken."""

    OBJECT_LOCK = "object-lock"
    REPLICATION_PENDING = "replication-pending"


@dataclass(frozen=True, slots=True)
class BucketContext:
    """What decisions depend on beside the rules.

    `minimum_transition_bytes` 0 lets small objects move, too. `classes` are the storage classes from the warmest to
    the coldest; nothing moves to any other. `keeps_null_markers` says that the store cannot remove delete markers of
    the null version.
    """

    versioning: Versioning = Versioning.OFF
    day_seconds: float = REAL_DAY_SECONDS
    minimum_transition_bytes: int = SMALL_OBJECT_BYTES
    classes: tuple[str, ...] = STORAGE_CLASSES
    keeps_null_markers: bool = False

    def coldness(self, storage_class: str) -> int:
        """STANDARD and classes that are not configured are the warmest."""
        return self.classes.index(storage_class) if storage_class in self.classes else -1


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """A key with all its versions, the newest first, in a bucket's context at one moment."""

    key: str
    versions: Sequence[Version]
    minimum: TransitionMinimum
    bucket_context: BucketContext
    now_ns: int


@dataclass(frozen=True, slots=True)
class Assessment:
    """`obstacles` say, in words, why the action does not apply; `permanent` that it destroys data for good."""

    pair: RuleAction
    due_ns: int | None
    became_due_ns: int | None
    effect: Effect
    permanent: bool
    hold: Hold | None
    obstacles: tuple[str, ...]

    @property
    def applies(self) -> bool:
        return not self.obstacles

    def is_due(self, now_ns: int) -> bool:
        return self.applies and self.due_ns is not None and self.due_ns <= now_ns


def assess(context: EvaluationContext, pair: RuleAction, subject: Subject, version: Version | None) -> Assessment:
    """`version` is None for an upload."""
    bucket_context = context.bucket_context
    due_ns = due_at(pair.action, subject, day_seconds=bucket_context.day_seconds)
    effect, permanent = _effect(pair, subject, version, bucket_context)
    return Assessment(
        pair=pair,
        due_ns=due_ns,
        became_due_ns=None
        if due_ns is None
        else became_due_at(pair.action, pair.rule.filter, subject, version, due_ns),
        effect=effect,
        permanent=permanent,
        hold=None if version is None else _hold(effect, permanent, version, context),
        obstacles=tuple(_obstacles(context, pair, subject, version)),
    )


def _obstacles(
    context: EvaluationContext, pair: RuleAction, subject: Subject, version: Version | None
) -> Iterator[str]:
    if not pair.rule.enabled:
        yield "the rule is disabled"
    reason = why_never_due(pair.action, subject)
    if reason:
        yield reason
        return
    yield from failures(pair.rule.filter, context.key, version)
    if version is not None and version.is_marker and version.is_null and context.bucket_context.keeps_null_markers:
        yield "the pool's store cannot remove delete markers of the null version"
    if version is not None and pair.action.kind.is_transition:
        yield from _obstacles_to_transition(context, pair, version)


def _obstacles_to_transition(context: EvaluationContext, pair: RuleAction, version: Version) -> Iterator[str]:
    target, bucket_context = pair.action.storage_class, context.bucket_context
    if target not in bucket_context.classes:
        yield f"no location serves the storage class {target}"
    elif bucket_context.coldness(target) <= bucket_context.coldness(version.storage_class):
        yield f"it is in {version.storage_class or 'STANDARD'}, from where nothing moves to {target}"
    smallest = smallest_to_move(pair, context.minimum, bucket_context)
    if version.size < smallest:
        yield f"{version.size} bytes are less than the {smallest} from which objects move"


def smallest_to_move(pair: RuleAction, minimum: TransitionMinimum, bucket_context: BucketContext) -> int:
    """The size in bytes from which on a transition moves objects."""
    small_may_move = minimum is TransitionMinimum.VARIES and pair.action.storage_class in _CLASSES_FOR_SMALL_OBJECTS
    return 0 if pair.rule.filter.has_size or small_may_move else bucket_context.minimum_transition_bytes


def _effect(
    pair: RuleAction, subject: Subject, version: Version | None, bucket_context: BucketContext
) -> tuple[Effect, bool]:
    """What the action does, and whether that destroys data for good."""
    if version is None:
        return Effect.ABORT_UPLOAD, True
    if pair.action.kind.is_transition:
        return Effect.TRANSITION, False
    if version.is_marker:
        return Effect.REMOVE_MARKER, True
    if subject.role is VersionRole.NONCURRENT or bucket_context.versioning is Versioning.OFF:
        return Effect.DELETE, True
    return Effect.EXPIRE, bucket_context.versioning is Versioning.SUSPENDED and version.is_null


def _hold(effect: Effect, permanent: bool, version: Version, context: EvaluationContext) -> Hold | None:
    """A lock forbids destruction, not moving nor hiding. What is still to be replicated is left alone altogether."""
    destroyed = [version] if permanent else []
    if effect is Effect.EXPIRE and context.bucket_context.versioning is Versioning.SUSPENDED:
        # The new null marker takes the place of the null version, wherever that stands among the versions.
        destroyed = [other for other in context.versions if other.is_null]
    if any(victim.locked(context.now_ns) for victim in destroyed):
        return Hold.OBJECT_LOCK
    if any(victim.replication_pending for victim in (version, *destroyed)):
        return Hold.REPLICATION_PENDING
    return None
