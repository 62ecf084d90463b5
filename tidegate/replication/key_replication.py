"""Replicates versions of one key to one site, in their order.

What is asked for is a version, but what is seen to is the key: versions that are older and wait go first, so that none
is overtaken by a newer one while it waits for a retry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.replication.messages import Content, ReplicationTask, StatusMessage, VersionGone
from tidegate.core.replication.ordering import SiteVersion, already_there, has_copy, state_at, to_put
from tidegate.core.replication.records import ReplicationRecord, Status, entries_of_key
from tidegate.movement.source_reader import Stopped
from tidegate.ports import Store, StoredVersion, Tables
from tidegate.replication.site_memory import SiteMemory
from tidegate.replication.site_survey import NO_IDS, is_copy, versions_at
from tidegate.replication.site_writer import SiteWriter, SourceGone, SourceIsReplica
from tidegate.replication.version_messages import completed, failed, gone_message, release, replica
from tidegate.table_pages import every

_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task as it was delivered. After the last try, a version that could not be replicated has failed."""

    task: ReplicationTask
    is_repeated: bool = False
    is_last_try: bool = False


class Result(Enum):
    """`BLOCKED`: the task has to wait, and no try is spent: for the retry of an older version of the key, or for the
    status that names the site."""

    DONE = "done"
    RETRY = "retry"
    BLOCKED = "blocked"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`messages` are for the status topic, and `released` copies that nobody needs any more; both are to be on stable
    storage before the task is acknowledged."""

    result: Result
    reason: str = ""
    messages: tuple[StatusMessage, ...] = ()
    released: tuple[PendingDelete, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """What stands behind a site, and what is known of it."""

    name: str
    store: Store
    writer: SiteWriter
    memory: SiteMemory


class KeyReplication:
    """Of one key and one batch of tasks. `may_begin` is asked before each. For one thread."""

    def __init__(self, tables: Tables, site: Site, bucket_uid: str, key: str, may_begin: Callable[[], bool]) -> None:
        self._site = site
        self._key = key
        self._may_begin = may_begin
        found = _records(tables, bucket_uid, key)
        self._records = {each.version_id: each for each in found if each.at(site.name) is not None}
        self._unnamed = {each.version_id for each in found if each.at(site.name) is None and not each.is_replica}
        self._failed: set[str] = set()
        self._lost: set[str] = set()
        self._trouble: TidegateError | None = None

    def outcomes(self, wanted: Sequence[Wanted]) -> list[Outcome]:
        self._records = _retimed(self._records, [each.task for each in wanted])
        return [self._outcome(each) for each in wanted]

    def _outcome(self, wanted: Wanted) -> Outcome:
        if not self._may_begin():
            return Outcome(Result.LEFT)
        record = self._records.get(wanted.task.version_id)
        if record is None:
            return self._unknown(wanted)
        state = state_at(record, self._site.name)
        if wanted.task.content is Content.TAGS and state.status is Status.FAILED and self._copy_of(record) is None:
            return Outcome(Result.DONE)  # whoever has it tried again has its tags put as well
        if state.since < wanted.task.moved_at:
            return Outcome(Result.BLOCKED, "its record does not name the bucket yet")
        if self._trouble is not None:
            return self._failure(wanted, record, self._trouble, is_own=isinstance(self._trouble, Unavailable))
        try:
            copy = self._copy_still_there(wanted.task, record)
            if copy is None or wanted.task.earlier_ns:
                return self._put_in_order(wanted, record)
            return self._kept_up(wanted.task, record, copy)
        except Stopped:
            return Outcome(Result.LEFT)
        except SourceGone:
            return Outcome(Result.DONE, messages=(self._gone(record),))
        except TidegateError as error:
            return self._failure(wanted, record, error, is_own=True)

    def _unknown(self, wanted: Wanted) -> Outcome:
        """The version is gone, or a status is on its way that makes the record what the task takes it for: it was
        deleted and brought back, or a backfill sends it to one more site."""
        task = wanted.task
        if task.earlier_ns and task.version_id not in self._unnamed and not wanted.is_last_try:
            return Outcome(Result.RETRY, "it has no record yet")
        if task.is_check and task.version_id in self._unnamed:
            return Outcome(Result.BLOCKED, "its record does not name the site yet")
        return Outcome(Result.DONE)

    # --- versions that have arrived --------------------------------------------------------------

    def _copy_of(self, record: ReplicationRecord) -> StoredVersion | None:
        state = state_at(record, self._site.name)
        known = self._site.memory.copy_of(record, state)
        if known is not None or record.version_id in self._lost or not has_copy(state):
            return known
        return StoredVersion(state.replica_version_id, state.replica_etag)

    def _copy_still_there(self, task: ReplicationTask, record: ReplicationRecord) -> StoredVersion | None:
        """The copy that the version has. It is looked for where an operator has reason to."""
        copy = self._copy_of(record)
        if copy is None:
            return None
        state = state_at(record, self._site.name)
        is_settled = state.status is Status.COMPLETED
        is_known = self._site.memory.copy_of(record, state) is not None
        if not task.is_check and (is_settled or is_known):
            return copy
        if self._is_there(record, copy):
            return copy
        self._lost.add(record.version_id)
        self._site.memory.began(record)
        return None

    def _is_there(self, record: ReplicationRecord, copy: StoredVersion) -> bool:
        bucket = state_at(record, self._site.name).bucket
        if not record.is_marker:
            return is_copy(self._site.store.head(bucket, record.key, copy.version_id), record)
        if self._is_of_another(record, copy):
            return False
        page = self._site.store.list_versions(bucket, prefix=record.key)
        shown = {version.version_id for version in page.versions if version.key == record.key and version.is_marker}
        return copy.version_id in shown

    def _is_of_another(self, record: ReplicationRecord, copy: StoredVersion) -> bool:
        """Whether an older version has this very copy, and so this one has none."""
        copies = (self._copy_of(each) for each in self._records.values() if each.ts_ns < record.ts_ns)
        return any(each is not None and each.version_id == copy.version_id for each in copies)

    def _kept_up(self, task: ReplicationTask, record: ReplicationRecord, copy: StoredVersion) -> Outcome:
        """Its tags may have been changed since it arrived. Its status is told again, behind whatever else was."""
        state = state_at(record, self._site.name)
        is_retried = state.status is not Status.COMPLETED and bool(state.replica_version_id)
        if (task.content is Content.TAGS or task.is_check or is_retried) and not record.is_marker:
            self._site.writer.put_tags(self._site.store, state.bucket, record, copy.version_id)
        return Outcome(Result.DONE, messages=(completed(record, self._site.name, copy, now=time.time()),))

    # --- versions that have not ------------------------------------------------------------------

    def _put_in_order(self, wanted: Wanted, record: ReplicationRecord) -> Outcome:
        sequence, arrived = self._sequence(record, since_ns=wanted.task.earlier_ns)
        shown = () if self._is_fresh(wanted, sequence, arrived) else self._shown(record)
        done: list[tuple[ReplicationRecord, StoredVersion]] = []
        dropped: list[StatusMessage] = []
        there = already_there(
            sequence,
            shown,
            copies={
                version_id: copy.version_id for version_id, copy in arrived.items() if copy.version_id not in NO_IDS
            },
            older={each.version_id for each in self._records.values() if sequence and each.ts_ns < sequence[0].ts_ns},
        )
        for place, (each, found) in enumerate(zip(sequence, there, strict=True)):
            try:
                copy = StoredVersion(found.version_id, found.etag) if found is not None else self._put(each)
                done.append((each, copy))
            except SourceGone:
                dropped.append(self._gone(each))
            except SourceIsReplica:
                dropped.append(self._replica(each))
            except TidegateError as error:
                return self._broken_off(wanted, record, error, done, dropped, sequence[place:], arrived)
        return self._arrived(done, dropped, arrived)

    def _sequence(
        self, record: ReplicationRecord, *, since_ns: int
    ) -> tuple[tuple[ReplicationRecord, ...], dict[str, StoredVersion]]:
        """What is to be put, and the copies that there are."""
        bucket = state_at(record, self._site.name).bucket
        here = [
            each
            for each in self._records.values()
            if state_at(each, self._site.name).bucket == bucket
            and (each.version_id not in self._failed or each is record)
        ]
        arrived = {each.version_id: copy for each in here if (copy := self._copy_of(each)) is not None}
        return to_put(here, self._site.name, record, arrived, since_ns=since_ns), arrived

    def _is_fresh(
        self, wanted: Wanted, sequence: Sequence[ReplicationRecord], arrived: dict[str, StoredVersion]
    ) -> bool:
        """Whether nothing of it can be at the site yet, so that nobody needs to look."""
        if wanted.is_repeated or wanted.task.is_check:
            return False
        return all(
            each.version_id not in arrived and self._site.memory.is_fresh(each, state_at(each, self._site.name).since)
            for each in sequence
        )

    def _shown(self, record: ReplicationRecord) -> tuple[SiteVersion, ...]:
        bucket = state_at(record, self._site.name).bucket
        here = [each for each in self._records.values() if state_at(each, self._site.name).bucket == bucket]
        known = ((each, self._copy_of(each)) for each in reversed(here))  # of two with one copy, the older has it
        copies = {copy.version_id: each.version_id for each, copy in known if copy is not None}
        return versions_at(self._site.store, bucket, self._key, {each.bucket_uid for each in here}, copies)

    def _put(self, record: ReplicationRecord) -> StoredVersion:
        if not self._may_begin():
            raise Stopped
        self._site.memory.began(record)
        return self._site.writer.put(self._site.store, state_at(record, self._site.name).bucket, record)

    def _arrived(
        self,
        done: Sequence[tuple[ReplicationRecord, StoredVersion]],
        dropped: Sequence[StatusMessage],
        earlier: dict[str, StoredVersion],
    ) -> Outcome:
        """Earlier copies of what was put again are released."""
        messages: list[StatusMessage] = list(dropped)
        released: list[PendingDelete] = []
        for record, copy in done:
            self._site.memory.arrived(record, copy)
            self._lost.discard(record.version_id)
            messages.append(completed(record, self._site.name, copy, now=time.time()))
            before = earlier.get(record.version_id)
            if before is not None and before.version_id not in ("", copy.version_id):
                released.append(
                    release(record, self._site.name, before.version_id, "it was put again behind an older version")
                )
        return Outcome(Result.DONE, messages=tuple(messages), released=tuple(released))

    # --- failures --------------------------------------------------------------------------------

    def _broken_off(
        self,
        wanted: Wanted,
        record: ReplicationRecord,
        error: TidegateError,
        done: Sequence[tuple[ReplicationRecord, StoredVersion]],
        dropped: Sequence[StatusMessage],
        rest: Sequence[ReplicationRecord],
        arrived: dict[str, StoredVersion],
    ) -> Outcome:
        """What was put before counts, unless it lies on top of newer versions that must be put again: then none has
        arrived, and a later try goes on from there."""
        is_own = rest[0].version_id in {record.version_id, *arrived} or isinstance(error, Unavailable)
        told = Outcome(Result.DONE, messages=tuple(dropped))
        if not any(each.version_id in arrived for each in rest):
            told = self._arrived(done, dropped, arrived)
        else:
            told = replace(told, released=self._misplaced(wanted, record, done, arrived))
        failure = self._failure(wanted, record, error, is_own=is_own)
        return Outcome(
            failure.result, failure.reason, told.messages + failure.messages, told.released + failure.released
        )

    def _misplaced(
        self,
        wanted: Wanted,
        record: ReplicationRecord,
        done: Sequence[tuple[ReplicationRecord, StoredVersion]],
        arrived: dict[str, StoredVersion],
    ) -> tuple[PendingDelete, ...]:
        """Copies that hide newer versions: second ones of versions that keep their first, which no later try would
        know, and that of a version that is given up."""

        def is_released(each: ReplicationRecord, copy: StoredVersion) -> bool:
            first = arrived.get(each.version_id)
            is_second = first is not None and first.version_id not in (*NO_IDS, copy.version_id)
            return bool(copy.version_id) and (is_second or (wanted.is_last_try and each is record))

        reason = "newer versions could not be put on top of it"
        return tuple(
            release(each, self._site.name, copy.version_id, reason) for each, copy in done if is_released(each, copy)
        )

    def _failure(self, wanted: Wanted, record: ReplicationRecord, error: TidegateError, *, is_own: bool) -> Outcome:
        """`is_own`: the version itself cannot be replicated, not an older one that it must wait for. A site that cannot
        be reached is not tried again for the other tasks of the batch."""
        reason = str(error)[:_LONGEST_REASON]
        has_failed = wanted.is_last_try and is_own
        if not has_failed or isinstance(error, Unavailable):
            self._trouble = error
        if not has_failed:
            return Outcome(Result.BLOCKED if wanted.is_last_try else Result.RETRY, reason)
        self._failed.add(record.version_id)
        self._site.writer.give_up(record, reason)
        told = failed(record, self._site.name, reason, now=time.time())
        return Outcome(Result.DONE, reason, messages=(told,))

    def _replica(self, record: ReplicationRecord) -> StatusMessage:
        self._records.pop(record.version_id, None)
        return replica(record, self._site.name, now=time.time())

    def _gone(self, record: ReplicationRecord) -> VersionGone:
        self._records.pop(record.version_id, None)
        self._site.writer.give_up(record, "the version is gone")
        return gone_message(record)


def _records(tables: Tables, bucket_uid: str, key: str) -> list[ReplicationRecord]:
    """Those of the key, the oldest first."""
    found = [ReplicationRecord.from_json(text) for _, text in every(tables, entries_of_key(bucket_uid, key))]
    return sorted(found, key=lambda record: record.ts_ns)


def _retimed(records: dict[str, ReplicationRecord], tasks: Sequence[ReplicationTask]) -> dict[str, ReplicationRecord]:
    """With the times that tasks tell, which records get a moment later; the oldest first again."""
    for task in tasks:
        record = records.get(task.version_id)
        if task.earlier_ns and record is not None and record.ts_ns < task.ts_ns:
            records[task.version_id] = replace(record, ts_ns=task.ts_ns)
    return dict(sorted(records.items(), key=lambda item: item[1].ts_ns))
