"""From what a store lists to what is to be done: the shell around the pure decision.

Tags and locks, which listings do not show, are asked for only where a decision depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix

from tidegate.core.errors import NotFound
from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.assess import BucketContext, Effect, EvaluationContext, Hold, assess
from tidegate.core.lifecycle.decide import Planned, decide
from tidegate.core.lifecycle.rules import Filter, RuleAction, RuleSet
from tidegate.core.lifecycle.subjects import Upload, Version, Versioning, subjects_of
from tidegate.core.listings import ListedUpload, ListedVersion, latest_moment_ns
from tidegate.ports import Store

_DESTROYS = frozenset({Effect.DELETE, Effect.EXPIRE})


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """One key with all its versions, the newest first, each as it was listed and as it is judged."""

    key: str
    listed: Sequence[ListedVersion]
    versions: Sequence[Version]


@dataclass(frozen=True, slots=True)
class ListingEvaluator:
    """Of one bucket, at one moment."""

    store: Store
    bucket: str
    rules: RuleSet
    bucket_context: BucketContext
    locks: bool
    now_ns: int

    def judge(self, key: str, listed: Sequence[ListedVersion]) -> tuple[KeyVersions, list[Planned]]:
        """The key's versions must be all there are."""
        case = self._case(key, listed)
        plan = self._decide(case)
        if self.locks and any(planned.effect in _DESTROYS for planned in plan):
            case = self._with_locks(case, {planned.version_id for planned in plan})
            plan = self._decide(case)
        return case, plan

    def judge_uploads(self, key: str, uploads: Sequence[ListedUpload]) -> list[Planned]:
        return decide(
            key, [], [upload_of(upload) for upload in uploads], self.rules, self.bucket_context, now_ns=self.now_ns
        )

    def _case(self, key: str, listed: Sequence[ListedVersion]) -> KeyVersions:
        versions = [version_of(entry, self.bucket_context.versioning) for entry in listed]
        if self.rules.needs_tags:
            wanted = self._in_need_of_tags(key, versions)
            versions = [
                replace(version, tags=self._tags(key, version)) if needed else version
                for version, needed in zip(versions, wanted, strict=True)
            ]
        return KeyVersions(key, listed, versions)

    def _tags(self, key: str, version: Version) -> tuple[tuple[str, str], ...]:
        try:
            return self.store.tags(self.bucket, key, version.version_id)
        except NotFound:  # it went away since it was listed; so will its task
            return ()

    def _in_need_of_tags(self, key: str, versions: Sequence[Version]) -> list[bool]:
        """Those to which an action with tags in its filter would be due if the tags were right."""
        context = EvaluationContext(key, versions, self.rules.minimum, self.bucket_context, self.now_ns)
        pairs = [
            pair._replace(rule=replace(pair.rule, filter=without_tags(pair.rule.filter)))
            for pair in self.rules.active()
            if pair.rule.filter.tags
        ]
        return [
            not version.is_marker and any(assess(context, pair, subject, version).is_due(self.now_ns) for pair in pairs)
            for version, subject in zip(versions, subjects_of(versions), strict=True)
        ]

    def _with_locks(self, case: KeyVersions, version_ids: set[str]) -> KeyVersions:
        return replace(
            case,
            versions=[
                self._with_lock(case.key, version)
                if (version.version_id in version_ids or version.is_null) and not version.is_marker
                else version
                for version in case.versions
            ],
        )

    def looked_into(self, key: str, version: Version) -> Version:
        """With its tags and locks, whether a decision depends on them or not."""
        version = replace(version, tags=self._tags(key, version))
        return self._with_lock(key, version) if self.locks else version

    def _with_lock(self, key: str, version: Version) -> Version:
        look = self.store.look(self.bucket, key, version.version_id)
        if look is None:
            return version
        return replace(version, retained_until_ns=look.retained_until_ns, legal_hold=look.legal_hold)

    def _decide(self, case: KeyVersions) -> list[Planned]:
        return decide(case.key, case.versions, [], self.rules, self.bucket_context, now_ns=self.now_ns)


def version_of(entry: ListedVersion, versioning: Versioning) -> Version:
    """A bucket without versioning has no version ids, whatever its listing says."""
    is_unversioned = versioning is Versioning.OFF and entry.version_id in ("", NULL_VERSION)
    return Version(
        version_id="" if is_unversioned else entry.version_id,
        created_ns=latest_moment_ns(entry.modified),
        size=entry.size,
        storage_class="" if entry.storage_class == "STANDARD" else entry.storage_class,
        is_marker=entry.is_marker,
        etag=entry.etag,
    )


def upload_of(entry: ListedUpload) -> Upload:
    return Upload(entry.upload_id, latest_moment_ns(entry.started))


def is_locked(planned: Planned) -> bool:
    return planned.hold is Hold.OBJECT_LOCK


def without_tags(rule_filter: Filter) -> Filter:
    return replace(rule_filter, tags=())


def common_prefix(pairs: Iterable[RuleAction]) -> str:
    """Only what some action can match is listed. Prefixes are of characters, not of folders."""
    return commonprefix([pair.rule.filter.prefix or "" for pair in pairs])  # noqa: RUF071
