"""One bucket task at work: what is listed is judged, and what is due is published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from os.path import commonprefix

from tidegate import metrics
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.rules import ActionKind, RuleAction
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC, BucketTask, ObjectTask, Outcome
from tidegate.core.listings import ListedVersion, latest_moment_ns
from tidegate.lifecycle.passes.listing_evaluator import KeyVersions, ListingEvaluator, is_locked, is_to_be_done
from tidegate.ports import Record, Topics
from tidegate.walking import UNSHOWABLE, walk

# What a task's `marker` says: which of the two listings of a bucket goes on. Empty: both begin.
VERSIONS, UPLOADS = "versions", "uploads"


class Listing:
    """`published` are digests of what an earlier attempt at the task has published."""

    def __init__(
        self, topics: Topics, judge: ListingEvaluator, task: BucketTask, *, limit: int, published: frozenset[bytes]
    ) -> None:
        self._topics = topics
        self._judge = judge
        self._store = judge.store
        self._rules = judge.rules
        self._task = task
        self._limit = limit
        self._published = published

    def run(self) -> None:
        if self._task.marker in ("", VERSIONS):
            self._versions()
        if self._task.marker in ("", UPLOADS):
            self._uploads()

    def _versions(self) -> None:
        task = self._task
        kinds = {pair.action.kind for pair in self._rules.active()}
        if kinds == {ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD}:
            return
        prefix = task.prefix or common_prefix(self._rules.active())
        stretch = walk(self._store, task.bucket, prefix=prefix, marker=task.key_marker, limit=self._limit)
        if stretch.next_marker:
            self._go_on(replace(task, prefix=prefix, marker=VERSIONS, key_marker=stretch.next_marker))
        self._publish(
            object_task
            for key, listed in stretch.keys.items()
            if UNSHOWABLE not in key
            for object_task in self._tasks(*self._judge.judge(key, listed))
        )

    def _uploads(self) -> None:
        task = self._task
        if not any(pair.action.kind is ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD for pair in self._rules.active()):
            return
        is_continued = task.marker == UPLOADS
        page = self._store.list_uploads(
            task.bucket,
            prefix=task.prefix,
            key_marker=task.key_marker if is_continued else "",
            upload_id_marker=task.upload_id_marker if is_continued else "",
            limit=self._limit,
        )
        following = replace(task, marker=UPLOADS, key_marker=page.next_key, upload_id_marker=page.next_upload_id)
        if page.is_truncated and page.uploads and following != task:
            self._go_on(following)
        self._publish(
            self._object_task(planned, latest_moment_ns(upload.started))
            for upload in page.uploads
            for planned in self._judge.judge_uploads(upload.key, [upload])
            if is_to_be_done(planned)
        )

    def _tasks(self, case: KeyVersions, plan: list[Planned]) -> Iterator[ObjectTask]:
        by_id = {version.version_id: number for number, version in enumerate(case.versions)}
        for planned in plan:
            if is_locked(planned):
                self._count_locked(planned)
            if is_to_be_done(planned):
                number = by_id[planned.version_id]
                yield self._object_task(planned, case.versions[number].created_ns, case.listed[number])

    def _object_task(self, planned: Planned, created_ns: int, listed: ListedVersion | None = None) -> ObjectTask:
        task = self._task
        has_data = listed is not None and not listed.is_marker
        return ObjectTask.of(
            planned,
            owner=task.owner,
            bucket=task.bucket,
            bucket_uid=task.bucket_uid,
            pass_id=task.pass_id,
            created_ns=created_ns,
            last_modified=listed.modified if listed is not None else "",
            etag=listed.etag if listed is not None else "",
            size=listed.size if listed is not None and has_data else None,
        )

    def _count_locked(self, planned: Planned) -> None:
        outcome = Outcome.SKIPPED_OBJECT_LOCK.value
        metrics.LIFECYCLE_DISPATCH.labels(self._task.bucket_uid, planned.kind.value, outcome).inc()

    def _go_on(self, task: BucketTask) -> None:
        self._append(BUCKET_TASKS_TOPIC, [Record(task.bucket_uid, task.to_bytes())])

    def _publish(self, tasks: Iterator[ObjectTask]) -> None:
        self._append(OBJECT_TASKS_TOPIC, [Record(f"{task.bucket_uid}/{task.key}", task.to_bytes()) for task in tasks])

    def _append(self, topic: str, records: Sequence[Record]) -> None:
        fresh = [record for record in records if digest(record.value) not in self._published]
        if fresh:
            self._topics.append(topic, fresh)


def common_prefix(pairs: Iterable[RuleAction]) -> str:
    """Only what some action can match is listed. Prefixes are of characters, not of folders."""
    return commonprefix([pair.rule.filter.prefix or "" for pair in pairs])  # noqa: RUF071


def digest(value: bytes) -> bytes:
    return sha256(value).digest()
