"""The status processor: carries statuses into the records of versions, and has failures listed.

It alone changes records that stand. One key's statuses are all in one partition, so that nobody else changes the same
record. A record, its open entries and the counts change in one step; what is counted is a record's change, so that a
message that comes again is not counted again. A processor that has lost the partition and does not know it yet finds
records that are not what it read, and reads them anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event as Flag

from tidegate.core.errors import Unavailable
from tidegate.core.replication.counts import ArrivedCount, ArrivedKey
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import (
    FAILED_TOPIC,
    REPLICATION_AUDIT_TOPIC,
    STATUS_GROUP,
    STATUS_TOPIC,
    FailedVersion,
    StatusMessage,
    StatusUpdate,
    VersionGone,
    VersionRetimed,
    read_status,
    record_key,
)
from tidegate.core.replication.records import ReplicationRecord, Status, entry_of
from tidegate.core.replication.transitions import arrivals, updated
from tidegate.ports import Record, Tables, Topics
from tidegate.replication.interval_counts import IntervalCounts
from tidegate.replication.topics import record_of
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, Answer, Delivery
from tidegate.workers.worker import Worker

_FIRST_BATCH, _LEAST, _MOST = 200, 50, 1000
_MOST_ATTEMPTS = 10


class StatusProcessor:
    """For one thread. `now` gives the Unix time."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        *,
        lease_seconds: float,
        stop: Flag,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._intervals = IntervalCounts(tables)
        self._now = now
        self._worker: Worker[StatusMessage] = Worker(
            topics,
            tables,
            topic=STATUS_TOPIC,
            group=STATUS_GROUP,
            decode=read_status,
            handle_batch=self._process,
            appends=[REPLICATION_AUDIT_TOPIC],
            lease_seconds=lease_seconds,
            size=BatchSize(_FIRST_BATCH, least=_LEAST, most=_MOST, lease_seconds=lease_seconds),
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._worker.close()

    def _process(self, deliveries: Sequence[Delivery[StatusMessage]]) -> Iterator[Answer]:
        """When the tables or topics are away, all of it comes again, in its order."""
        if not any(self._carried_in(deliveries) for _ in range(_MOST_ATTEMPTS)):
            raise Unavailable("records of replication are being changed by somebody else")
        updates = [delivery.task for delivery in deliveries if isinstance(delivery.task, StatusUpdate)]
        self._record(deliveries)
        failed = [update for update in updates if update.status is Status.FAILED]
        if failed:
            self._topics.append(FAILED_TOPIC, [_failed_record(update) for update in failed])
        yield from [DONE] * len(deliveries)

    def _carried_in(self, deliveries: Sequence[Delivery[StatusMessage]]) -> bool:
        """False if somebody else has changed a record meanwhile, and nothing was written."""
        changes = _Changes(self._tables, self._intervals, self._now())
        for delivery in deliveries:
            changes.add(delivery.task, delivery.message.partition)
        return changes.write()

    def _record(self, deliveries: Sequence[Delivery[StatusMessage]]) -> None:
        """Failures and retries, in the audit trail."""
        again = next((delivery for delivery in deliveries if delivery.prior is not None), None)
        known = set(again.appended_before(REPLICATION_AUDIT_TOPIC)) if again is not None else set()
        records = [record_of(delivery.task) for delivery in deliveries if _is_audited(delivery.task)]
        new = [record for record in records if record.value not in known]
        if new:
            self._topics.append(REPLICATION_AUDIT_TOPIC, new)


class _Changes:
    """What a batch of messages changes."""

    def __init__(self, tables: Tables, intervals: IntervalCounts, now: float) -> None:
        self._tables = tables
        self._intervals = intervals
        self._intervals.begin()
        self._now = now
        self._records: dict[str, ReplicationRecord | None] = {}
        self._counts: dict[str, ArrivedCount] = {}
        self._entries: dict[str, str | None] = {}
        self._read: dict[str, str | None] = {}

    def add(self, message: StatusMessage, partition: int) -> None:
        entry = entry_of(message.bucket_uid, message.key, message.version_id)
        before = self._record(entry)
        if before is None:
            if isinstance(message, VersionRetimed) and message.record is not None:
                self._records[entry] = message.record
                self._entries |= {entry: message.record.to_json(), **message.record.open_entries()}
            return
        if isinstance(message, VersionGone):
            if 0 < message.ts_ns < before.ts_ns:
                return
            after = None
            self._entries[entry] = None
            self._entries |= dict.fromkeys(before.open_entries())
        elif isinstance(message, VersionRetimed):
            after = replace(before, ts_ns=max(before.ts_ns, message.ts_ns))
            self._entries |= {entry: after.to_json(), **after.open_entries()}
        else:
            after = updated(before, message)
            if after == before:
                return
            self._entries |= {entry: after.to_json(), **dict.fromkeys(before.open_entries()), **after.open_entries()}
            self._count_interval(before, message, partition)
        self._records[entry] = after
        for site, change in arrivals(before, after).items():
            self._count(ArrivedKey(site, before.bucket_uid, partition), change, before.size)

    def write(self) -> bool:
        """False if a record or count is not what it was."""
        for entry, count in self._counts.items():
            self._entries[entry] = count.to_json() if count.completed > 0 else None
        self._entries |= self._intervals.entries(self._now)
        expected = {entry: text for entry, text in self._read.items() if entry in self._entries}
        return self._tables.change(self._entries, expected=expected)

    def _record(self, entry: str) -> ReplicationRecord | None:
        if entry not in self._records:
            text = self._read[entry] = self._tables.get(entry)
            self._records[entry] = ReplicationRecord.from_json(text) if text is not None else None
        return self._records[entry]

    def _count(self, key: ArrivedKey, change: int, size: int) -> None:
        if key.entry not in self._counts:
            text = self._read[key.entry] = self._tables.get(key.entry)
            self._counts[key.entry] = ArrivedCount.from_json(text) if text is not None else ArrivedCount()
        self._counts[key.entry] = self._counts[key.entry].plus(change, change * size)

    def _count_interval(self, before: ReplicationRecord, update: StatusUpdate, partition: int) -> None:
        state = before.at(update.site)
        if update.status is not Status.REPLICA and (state is None or state.status is not update.status):
            self._intervals.add(update.site, partition, update.status, before.size)


def _is_audited(message: StatusMessage) -> bool:
    return isinstance(message, StatusUpdate) and (message.status is Status.FAILED or message.is_retry)


def _failed_record(update: StatusUpdate) -> Record:
    key = FailedKey(update.bucket, update.key, update.version_id, update.site)
    return Record(record_key(update.bucket_uid, update.key), FailedVersion(str(key)).to_bytes())
