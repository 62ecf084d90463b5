"""Purging a bucket: all versions, delete markers and open uploads go, through the gateway.

Each delete names what was listed: an object that was written meanwhile stays. The gateway releases what lies in
locations, as it does for every delete. Each version leaves a record in the deletion audit. Where a bucket has a grace,
versions are kept in the trash first.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event as Flag

from tidegate.core.deletion_records import DeletionOutcome, DeletionRecord
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.core.pending_deletes import Component, DataType
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.assignments import Assignment, Keeper, Result
from tidegate.lifecycle.acting.bucket_actions import Actor, batches
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.ports import Store
from tidegate.walking import stretches, upload_pages

_WHY = "bucket purge"


@dataclass(slots=True)
class PurgeCounts:
    """What was found so far, and what became of it. With a dry run nothing is deleted, aborted or failed."""

    versions: int = 0
    markers: int = 0
    uploads: int = 0
    bytes: int = 0
    deleted: int = 0
    aborted: int = 0
    failed: int = 0
    first_failure: str = ""


Progress = Callable[[PurgeCounts], None]


class Purge:
    """Of one bucket; `store` is its pool's, seen through the gateway. `keeps_null_markers` says that the store cannot
    remove them. `keeper` is asked for one that keeps what a batch deletes, if anything is to be kept: keepers remember
    all that they have kept."""

    def __init__(
        self,
        store: Store,
        bucket: Bucket,
        audit: DeletionAudit,
        *,
        keeps_null_markers: bool = False,
        keeper: Callable[[], Keeper | None] = lambda: None,
    ) -> None:
        self._store = store
        self._bucket = bucket
        self._audit = audit
        self._keeps_null_markers = keeps_null_markers
        self._keeper = keeper
        self._worker = f"{socket.gethostname()}:{os.getpid()}"

    def run(self, prefix: str, *, dry_run: bool, progress: Progress) -> PurgeCounts:
        counts = PurgeCounts()
        for tasks in self._tasks(prefix, counts):
            if not dry_run:
                for batch in batches([Assignment(task) for task in tasks]):
                    self._note(batch, self._actor().act(batch), counts)
            progress(counts)
        return counts

    def _actor(self) -> Actor:
        stop = Flag()
        return Actor(
            self._store,
            self._bucket.name,
            now_ns=time.time_ns(),
            pause=lambda seconds: not stop.wait(seconds),
            keeps_null_markers=self._keeps_null_markers,
            keeper=self._keeper(),
        )

    def _tasks(self, prefix: str, counts: PurgeCounts) -> Iterator[list[ObjectTask]]:
        for page in upload_pages(self._store, self._bucket.name, prefix=prefix):
            counts.uploads += len(page)
            yield [self._of_upload(upload) for upload in page]
        versioning = self._store.versioning(self._bucket.name)
        for stretch in stretches(self._store, self._bucket.name, prefix=prefix):
            versions = [version for of_key in stretch.keys.values() for version in of_key]
            counts.markers += sum(version.is_marker for version in versions)
            counts.versions += sum(not version.is_marker for version in versions)
            counts.bytes += sum(version.size for version in versions)
            yield [self._of_version(version, versioning) for version in versions]

    def _of_version(self, version: ListedVersion, versioning: Versioning) -> ObjectTask:
        return self._task(
            Effect.REMOVE_MARKER if version.is_marker else Effect.DELETE,
            version.key,
            # A bucket without versioning has no version ids, whatever its listing says.
            version_id="" if versioning is Versioning.OFF else version.version_id,
            etag=version.etag,
            size=None if version.is_marker else version.size,
            last_modified=version.modified,
        )

    def _of_upload(self, upload: ListedUpload) -> ObjectTask:
        return self._task(Effect.ABORT_UPLOAD, upload.key, upload_id=upload.upload_id)

    def _task(
        self,
        effect: Effect,
        key: str,
        *,
        version_id: str = "",
        upload_id: str = "",
        etag: str = "",
        size: int | None = None,
        last_modified: str = "",
    ) -> ObjectTask:
        return ObjectTask(
            effect=effect,
            owner="",
            bucket=self._bucket.name,
            key=key,
            version_id=version_id,
            bucket_uid=self._bucket.uid,
            pass_id="",
            kind=ActionKind.EXPIRATION_DAYS,
            rule_id="",
            action_id="",
            due_ns=0,
            became_due_ns=0,
            etag=etag,
            size=size,
            last_modified=last_modified,
            upload_id=upload_id,
        )

    def _note(self, batch: Sequence[Assignment], results: Sequence[Result], counts: PurgeCounts) -> None:
        records = []
        for assignment, result in zip(batch, results, strict=True):
            task, is_done = assignment.task, result.outcome is Outcome.DONE
            if not is_done:
                counts.failed += 1
                counts.first_failure = counts.first_failure or f"{task.key}: {result.reason}"
            elif task.upload_id:
                counts.aborted += 1
            else:
                counts.deleted += 1
            records.append(self._record(task, DeletionOutcome.DELETED if is_done else DeletionOutcome.FAILED, result))
        self._audit.append(records)

    def _record(self, task: ObjectTask, outcome: DeletionOutcome, result: Result) -> DeletionRecord:
        return DeletionRecord(
            at_ns=time.time_ns(),
            outcome=outcome,
            component=(Component.UPLOAD if task.upload_id else Component.VERSION).value,
            data_type=DataType.STORE.value,
            pool=self._bucket.pool,
            bucket=self._bucket.name,
            bucket_uid=self._bucket.uid,
            key=task.key,
            version_id=task.version_id,
            upload_id=task.upload_id,
            etag=task.etag,
            why=_WHY,
            detail=result.reason,
            worker=self._worker,
        )
