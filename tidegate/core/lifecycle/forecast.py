"""What rules will do to one key in times to come, provided that nobody else changes it.

The plan of one pass is carried out on paper, and the next pass plans from what would be there then: an object that
is hidden by a delete marker today is removed as a noncurrent version later, and its marker after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.assess import Assessment, BucketContext, Effect, EvaluationContext, Hold, assess
from tidegate.core.lifecycle.decide import ActionsByPrefix, Planned, plan_one
from tidegate.core.lifecycle.rules import RuleAction, RuleSet, TransitionMinimum
from tidegate.core.lifecycle.subjects import Subject, Upload, Version, Versioning, of_upload, subjects_of

# When the first pass begins that does not begin before a time.
PassAt = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class ForecastAction:
    """One action of the pass at `at_ns`. `size` are the bytes of the version that it is about, `freed` those of all
    that it destroys. An action that is held does nothing, and is told once."""

    planned: Planned
    at_ns: int
    size: int
    freed: int


@dataclass(slots=True)
class Forecast:
    """What happens until the horizon. Of what is there now and is untouched until then, some has its turn `later`, and
    of some it `never` comes as things stand."""

    actions: list[ForecastAction] = field(default_factory=list)
    later: list[Version | Upload] = field(default_factory=list)
    never: list[Version | Upload] = field(default_factory=list)


class Forecaster:
    """For many keys under the same rules. The first pass begins at `now_ns`, the others when `pass_at` says."""

    def __init__(
        self,
        rule_set: RuleSet,
        bucket_context: BucketContext,
        *,
        now_ns: int,
        until_ns: int,
        pass_at: PassAt,
    ) -> None:
        self._minimum = rule_set.minimum
        self._bucket_context = bucket_context
        self._now_ns = now_ns
        self._until_ns = until_ns
        self._pass_at = pass_at
        self._actions = ActionsByPrefix(rule_set)

    def forecast(self, key: str, versions: Sequence[Version], uploads: Sequence[Upload] = ()) -> Forecast:
        """The key's versions, all there are, come newest first."""
        pairs = self._actions.of(key)
        if not pairs:
            return Forecast(never=[*versions, *uploads])
        course = _Course(key, versions, uploads, pairs, self._minimum, self._bucket_context)
        found = Forecast()
        at_ns: int | None = self._now_ns
        while at_ns is not None and at_ns <= self._until_ns:
            found.actions += course.one_pass(at_ns)
            turn_ns = course.next_turn_ns(at_ns)
            at_ns = self._pass_at(turn_ns) if turn_ns is not None and turn_ns <= self._until_ns else None
        touched = {_name_of(entry.planned) for entry in found.actions}
        originals = {*versions, *uploads}
        for item, has_turn in course.left():
            if item in originals and _name(item) not in touched:
                (found.later if has_turn else found.never).append(item)
        return found


# Version and upload id: what tells the versions and uploads of one key apart.
_Name = tuple[str, str]


class _Course:
    """One key as the passes change it."""

    def __init__(
        self,
        key: str,
        versions: Sequence[Version],
        uploads: Sequence[Upload],
        pairs: list[RuleAction],
        minimum: TransitionMinimum,
        bucket_context: BucketContext,
    ) -> None:
        self._key = key
        self._versions = {version.version_id: version for version in versions}  # the newest first
        self._uploads = {upload.upload_id: upload for upload in uploads}
        self._pairs = pairs
        self._minimum = minimum
        self._bucket_context = bucket_context
        self._told: set[tuple[_Name, str]] = set()

    def one_pass(self, at_ns: int) -> list[ForecastAction]:
        """Plans, and then does what is planned."""
        context = self._situation(at_ns)
        plan = [
            entry
            for subject, item in self._subjects()
            for entry in plan_one(context, self._pairs, subject, _version(item), upload_id=_name(item)[1])
        ]
        return [self._done(entry, at_ns) for entry in plan if self._is_news(entry)]

    def next_turn_ns(self, at_ns: int) -> int | None:
        """When there is something to do again, after `at_ns`; None: never."""
        context = self._situation(at_ns)
        return min(
            (
                moment
                for subject, item in self._subjects()
                for assessment in self._applying(context, subject, item)
                for moment in self._turns(assessment, at_ns)
            ),
            default=None,
        )

    def left(self) -> Iterator[tuple[Version | Upload, bool]]:
        """What is still there, and whether some action applies to it, whenever its turn is."""
        context = self._situation(0)
        for subject, item in self._subjects():
            yield item, any(True for _ in self._applying(context, subject, item))

    def _situation(self, at_ns: int) -> EvaluationContext:
        return EvaluationContext(self._key, tuple(self._versions.values()), self._minimum, self._bucket_context, at_ns)

    def _subjects(self) -> Iterator[tuple[Subject, Version | Upload]]:
        versions = list(self._versions.values())
        yield from zip(subjects_of(versions), versions, strict=True)
        yield from ((of_upload(upload), upload) for upload in self._uploads.values())

    def _applying(self, context: EvaluationContext, subject: Subject, item: Version | Upload) -> Iterator[Assessment]:
        for pair in self._pairs:
            assessment = assess(context, pair, subject, _version(item))
            if assessment.applies:
                yield assessment

    def _turns(self, assessment: Assessment, at_ns: int) -> Iterator[int]:
        """The times after `at_ns` at which a pass may take the action."""
        assert assessment.due_ns is not None  # it applies
        if assessment.due_ns > at_ns:
            yield assessment.due_ns
        elif assessment.hold is None:
            yield at_ns + 1
        elif assessment.hold is Hold.OBJECT_LOCK:
            ends = (version.retained_until_ns for version in self._versions.values())
            yield from (end_ns for end_ns in ends if end_ns is not None and end_ns > at_ns)

    def _is_news(self, entry: Planned) -> bool:
        """An action that is held is planned in every pass."""
        what = (_name_of(entry), entry.action_id)
        if entry.hold is not None and what in self._told:
            return False
        self._told.add(what)
        return True

    def _done(self, entry: Planned, at_ns: int) -> ForecastAction:
        version = None if entry.upload_id else self._versions.get(entry.version_id)
        freed = self._carried_out(entry, at_ns) if entry.hold is None else 0
        return ForecastAction(entry, at_ns, version.size if version is not None else 0, freed)

    def _carried_out(self, entry: Planned, at_ns: int) -> int:
        """Gives the bytes that were destroyed. An earlier action of the same pass may have come first."""
        match entry.effect:
            case Effect.ABORT_UPLOAD:
                self._uploads.pop(entry.upload_id, None)
            case Effect.TRANSITION:
                moved = self._versions[entry.version_id]
                self._versions[entry.version_id] = replace(moved, storage_class=entry.storage_class)
            case Effect.DELETE | Effect.REMOVE_MARKER:
                gone = self._versions.pop(entry.version_id, None)
                return gone.size if gone is not None else 0
            case Effect.EXPIRE:
                return self._hidden(at_ns)
        return 0

    def _hidden(self, at_ns: int) -> int:
        """Puts a marker on top; where versioning is suspended, in the place of the null version."""
        is_suspended = self._bucket_context.versioning is Versioning.SUSPENDED
        replaced = [version for version in self._versions.values() if is_suspended and version.is_null]
        for version in replaced:
            del self._versions[version.version_id]
        marker = Version(NULL_VERSION if is_suspended else f"marker-{at_ns}", at_ns, is_marker=True)
        self._versions = {marker.version_id: marker, **self._versions}
        return sum(version.size for version in replaced)


def _version(item: Version | Upload) -> Version | None:
    return item if isinstance(item, Version) else None


def _name(item: Version | Upload) -> _Name:
    return (item.version_id, "") if isinstance(item, Version) else ("", item.upload_id)


def _name_of(entry: Planned) -> _Name:
    return ("", entry.upload_id) if entry.upload_id else (entry.version_id, "")
