"""Keeps what is about to be deleted for good: its data goes to the trash location, and a record has all that is needed
to bring it back.

The order matters, since a process may die between any two steps. The data is safe first; then the message is sent that
deletes it when the grace is over; then the record is written; and only then is the version deleted. Where that cannot
be done, nothing is deleted. A process that dies leaves at most a record of a version that is still there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.copy_tasks import CopyResult, CopyTask
from tidegate.core.errors import NotFound, Refused, Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.locations import Location
from tidegate.core.placements import Placement
from tidegate.core.records import Bucket
from tidegate.core.trash import TrashRecord, destroyed_version, entry_of, in_trash
from tidegate.lifecycle.acting.assignments import Result
from tidegate.lifecycle.acting.stores import Stores
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.copying import Copier
from tidegate.movement.graces import Graces
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.pending_deletes import append_pending
from tidegate.movement.source_reader import Stopped
from tidegate.ports import Store, Tables, Topics
from tidegate.settings import Settings

_MOST_THREADS = 64
WAITS_FOR = "trash"


class Trash:
    """Of one process; may be shared by threads."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        locations: KnownLocations,
        settings: Settings,
        *,
        stop: Flag,
    ) -> None:
        self.tables = tables
        self.topics = topics
        self.settings = settings.deletion
        self.locations = locations
        self.graces = Graces(tables, settings.deletion)
        self.progress = CopyProgress(tables, topics, deletion_topic=settings.deletion.topic)
        self.copier = Copier(
            tables,
            self.progress,
            stores,
            locations,
            part_bytes=settings.movement.part_mb << 20,
            at_a_time=_MOST_THREADS,
            stop=stop,
        )
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def of_bucket(self, bucket: Bucket, store: Store) -> BucketTrash | None:
        """None if nothing of the bucket is kept."""
        seconds = self.graces.seconds_of(bucket)
        return BucketTrash(self, bucket, store, seconds) if seconds > 0 else None

    def executor(self, location: Location) -> ThreadPoolExecutor:
        """As many threads as the location takes transfers at a time."""
        with self._lock:
            if self._executor is None:
                threads = min(location.concurrency, _MOST_THREADS)
                self._executor = ThreadPoolExecutor(threads, thread_name_prefix="trash")
            return self._executor

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class BucketTrash:
    """Keeps what tasks in one bucket destroy. `store` is that of its pool, seen through the gateway. For one thread."""

    def __init__(self, trash: Trash, bucket: Bucket, store: Store, grace_seconds: float) -> None:
        self._trash = trash
        self._bucket = bucket
        self._store = store
        self._grace_seconds = grace_seconds
        self._versioning: Versioning | None = None
        self._kept: dict[ObjectTask, TrashRecord] = {}
        self._trouble = ""

    def keep(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        """Returns when all is kept that the tasks destroy; gives the results of those that must not be carried out, by
        their place. Asking again for the same task is safe."""
        destroyed = {number: self._destroyed(task) for number, task in enumerate(tasks) if task not in self._kept}
        wanted = {number: version_id for number, version_id in destroyed.items() if version_id is not None}
        if not wanted:
            return {}
        location = self._location()
        if isinstance(location, Result):
            return dict.fromkeys(wanted, location)
        self._trouble = ""
        found = self._trash.executor(location).map(
            lambda number: self._copied(tasks[number], wanted[number], location), wanted
        )
        results: dict[int, Result] = {}
        copied: dict[int, TrashRecord] = {}
        for number, outcome in zip(wanted, found, strict=True):
            if isinstance(outcome, Result):
                results[number] = outcome
            elif outcome is not None:
                copied[number] = outcome
        return results | self._recorded(tasks, copied)

    def forget(self, task: ObjectTask) -> None:
        """The task was not carried out: what was kept for it is not needed."""
        record = self._kept.pop(task, None)
        if record is not None and self._trash.tables.delete(record.entry):
            self._send([record], not_before=0.0, reason="it was not deleted")

    # --- one version -----------------------------------------------------------------------------

    def _destroyed(self, task: ObjectTask) -> str | None:
        if task.effect is Effect.EXPIRE and self._versioning is None:
            self._versioning = self._store.versioning(self._bucket.name)
        return destroyed_version(task, self._versioning or Versioning.ENABLED)

    def _location(self) -> Location | Result:
        name = self._trash.settings.trash_location
        try:
            if name:
                return self._trash.locations.get(name)
        except NotFound:
            pass
        why = f"there is no location {name}" if name else "no location is named"
        return Result(
            Outcome.BLOCKED,
            f"what is deleted is to be kept, but {why} to keep it in: set deletion.trash_location, or the grace to 0",
        )

    def _copied(self, task: ObjectTask, version_id: str, location: Location) -> TrashRecord | Result | None:
        """The record that is to be written; None where there is nothing to keep."""
        if self._trouble:
            return self._later(self._trouble)
        try:
            return self._copy(task, version_id, location)
        except (Unavailable, Stopped) as error:
            self._trouble = str(error) or "the process was told to end"
            return self._later(self._trouble)
        except (NotFound, Refused) as error:
            return Result(Outcome.BLOCKED, f"it cannot be kept: {error}")

    def _later(self, reason: str) -> Result:
        where = self._trash.settings.trash_location
        return Result(Outcome.RETRY_LATER, f"it could not be kept in location {where}: {reason}", waits_for=WAITS_FOR)

    def _copy(self, task: ObjectTask, version_id: str, location: Location) -> TrashRecord | Result | None:
        copy_task = _copy_task(task, version_id, location)
        known = self._trash.tables.get(entry_of(self._bucket.uid, task.key, version_id, copy_task.id))
        if known is not None:
            # An earlier attempt has copied it. If the version is gone, that has deleted it, too.
            record = TrashRecord.from_json(known)
            version = self._store.describe(task.bucket, task.key, version_id)
            kept = record.placement
            if version is None:
                return None
            if _identity(version) != _identity(kept):
                # What is there now was not judged. The record is of what the earlier attempt has deleted, and stays.
                return Result(Outcome.NOOP_RESOLVED, "it was replaced")
            return self._record(record.id, task, version, kept.location, kept.data_key, kept.data_etag)
        status = self._trash.copier.copy(copy_task, location)
        is_another = (task.version_id or NULL_VERSION) != (version_id or NULL_VERSION)
        if status.result is CopyResult.GONE and is_another:
            return None
        if status.result in (CopyResult.GONE, CopyResult.CHANGED):
            return Result(Outcome.NOOP_RESOLVED, status.reason)
        if status.result is not CopyResult.COPIED:
            return Result(Outcome.BLOCKED, f"it cannot be kept: {status.reason}")
        version = self._store.describe(task.bucket, task.key, version_id)
        if version is None or (version.etag, version.size) != (status.etag, status.size):
            self._trash.copier.give_up(copy_task, "it was replaced")
            return Result(Outcome.NOOP_RESOLVED, "it was replaced")
        return self._record(copy_task.id, task, version, location.name, status.data_key, status.data_etag)

    def _record(
        self, record_id: str, task: ObjectTask, version: Placement, location: str, data_key: str, data_etag: str
    ) -> TrashRecord:
        now_ns = time.time_ns()
        return TrashRecord(
            id=record_id,
            placement=in_trash(version, location=location, data_key=data_key, data_etag=data_etag),
            deleted_ns=now_ns,
            until=now_ns / 1e9 + self._grace_seconds,
            pass_id=task.pass_id,
        )

    # --- all that were copied --------------------------------------------------------------------

    def _recorded(self, tasks: Sequence[ObjectTask], copied: dict[int, TrashRecord]) -> dict[int, Result]:
        if not copied:
            return {}
        try:
            self._send(list(copied.values()), not_before=None, reason="its grace is over")
        except Unavailable as error:
            return dict.fromkeys(copied, self._later(str(error)))
        for number, record in copied.items():
            self._trash.tables.put(record.entry, record.to_json())
            copy = self._trash.progress.of_data(record.placement.location, record.placement.data_key)
            if copy is not None:
                self._trash.progress.end(copy)
            self._kept[tasks[number]] = record
            metrics.TRASH_KEPT.labels(record.placement.location).inc()
        return {}

    def _send(self, records: Sequence[TrashRecord], *, not_before: float | None, reason: str) -> None:
        """With `not_before` None each waits for the end of its own grace."""
        now_ns = time.time_ns()
        pendings = [
            record.pending(sent_ns=now_ns, not_before=record.until if not_before is None else not_before, reason=reason)
            for record in records
        ]
        append_pending(self._trash.topics, self._trash.settings.topic, pendings)


def _identity(version: Placement) -> tuple[str, int, float]:
    return version.etag, version.size, version.last_modified


def _copy_task(task: ObjectTask, version_id: str, location: Location) -> CopyTask:
    """The same for every attempt of a task. Where it destroys another version than the one that was judged, the
    identity of that is not known."""
    is_judged = (task.version_id or NULL_VERSION) == (version_id or NULL_VERSION)
    return CopyTask(
        owner=task.owner,
        bucket=task.bucket,
        key=task.key,
        version_id=version_id,
        bucket_uid=task.bucket_uid,
        location=location.name,
        storage_class="",
        results_topic="",
        request_id=task.pass_id,
        size=task.size if is_judged else None,
        etag=task.etag if is_judged else "",
        last_modified=task.last_modified if is_judged else "",
        unmodified_since="" if task.last_modified or not is_judged else task.unmodified_since,
    )
