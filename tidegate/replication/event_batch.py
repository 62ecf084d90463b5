"""What a batch of events of the metadata log has the populator write, each kind at once.

Records are written before tasks, and statuses before what follows from them, so that a batch that is broken off can be
taken in once more. That a version went is told before that it is back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.replication.messages import (
    REPLICATION_TOPIC,
    STATUS_TOPIC,
    Content,
    ReplicationTask,
    StatusMessage,
)
from tidegate.core.replication.ordering import has_copy
from tidegate.core.replication.records import RECORDS, ReplicationRecord, Status, entries_of_key, entry_of
from tidegate.core.replication.rules import REPLICATION
from tidegate.ports import Tables, Topics
from tidegate.replication.enqueueing import enqueue, queued
from tidegate.replication.topics import send
from tidegate.replication.version_messages import gone_message, pending
from tidegate.table_pages import every


class EventBatch:
    def __init__(self, tables: Tables, topics: Topics, *, now: float) -> None:
        self._tables = tables
        self._topics = topics
        self._now = now
        self._versions: dict[str, ReplicationRecord] = {}
        self._statuses: list[StatusMessage] = []
        self._tasks: list[ReplicationTask] = []
        self._deleted_buckets: list[str] = []

    def add_version(self, event: Event, targets: Mapping[str, str]) -> None:
        """`targets` are the bucket at each site; a replica has none."""
        record = ReplicationRecord(
            pool=event.pool,
            bucket=event.bucket,
            bucket_uid=event.bucket_uid,
            key=event.key,
            version_id=event.version_id,
            ts_ns=event.ts_ns,
            last_modified=event.ts_ns / 1e9,
            size=event.size or 0,
            etag=event.etag,
            is_marker=event.operation is EventKind.DELETE_MARKER,
            is_replica=event.is_replica,
        )
        self.add_record(queued(record, dict(targets), now=self._now))

    def add_record(self, record: ReplicationRecord) -> None:
        self._versions[record.entry] = record

    def is_known(self, entry: str) -> bool:
        return entry in self._versions or self._tables.get(entry) is not None

    def add_tagging(self, event: Event) -> None:
        """Sites that have the version get its tags again. Where it is on its way, they may have been read before, and
        where it has failed, it may be on its way once more."""
        record = self._tagged(event)
        if record is None or record.is_marker or not record.sites:
            return
        awaited = [state.site for state in record.sites if state.status is not Status.FAILED or has_copy(state)]
        self._statuses += [pending(record, site, now=self._now) for site in awaited]
        self._tasks.append(
            ReplicationTask(
                bucket=record.bucket,
                bucket_uid=record.bucket_uid,
                key=record.key,
                version_id=record.version_id,
                ts_ns=record.ts_ns,
                sites=tuple(state.site for state in record.sites),
                content=Content.TAGS,
            )
        )

    def add_deletion(self, event: Event) -> None:
        """Of a version by its id, which sites do not follow."""
        entry = entry_of(event.bucket_uid, event.key, event.version_id or NULL_VERSION)
        record = self._versions.pop(entry, None) or self._stored(entry)
        if record is not None:
            self._statuses.append(gone_message(record, ts_ns=event.ts_ns))

    def add_bucket_deletion(self, event: Event) -> None:
        self._deleted_buckets.append(event.bucket_uid)

    def write(self) -> None:
        send(self._topics, STATUS_TOPIC, self._statuses)
        if self._versions:
            enqueue(self._tables, self._topics, list(self._versions.values()))
        send(self._topics, REPLICATION_TOPIC, self._tasks)
        for bucket_uid in self._deleted_buckets:
            self._forget(bucket_uid)

    def _tagged(self, event: Event) -> ReplicationRecord | None:
        """The version that the event means; without an id, the newest that there was then."""
        if event.version_id:
            entry = entry_of(event.bucket_uid, event.key, event.version_id)
            return self._versions.get(entry) or self._stored(entry)
        known = [record for record in self._of_key(event) if record.ts_ns < event.ts_ns]
        return max(known, key=lambda record: record.ts_ns, default=None)

    def _of_key(self, event: Event) -> Iterator[ReplicationRecord]:
        prefix = entries_of_key(event.bucket_uid, event.key)
        yield from (record for entry, record in self._versions.items() if entry.startswith(prefix))
        yield from (ReplicationRecord.from_json(text) for _, text in every(self._tables, prefix))

    def _stored(self, entry: str) -> ReplicationRecord | None:
        text = self._tables.get(entry)
        return ReplicationRecord.from_json(text) if text is not None else None

    def _forget(self, bucket_uid: str) -> None:
        """With all that replication knows of it: no bucket will have that uid again."""
        known = every(self._tables, f"{RECORDS}{bucket_uid}/")
        send(self._topics, STATUS_TOPIC, [gone_message(ReplicationRecord.from_json(text)) for _, text in known])
        self._tables.delete(REPLICATION + bucket_uid)
