"""Retry of what has failed: an operator asks for versions once more.

For each version, in this order: its metadata is looked at, its status becomes PENDING, its task is queued, and its
entry leaves the list of failures. Many versions take each step together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from tidegate.core.errors import NotFound
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import REPLICATION_TOPIC, STATUS_TOPIC, ReplicationTask, StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, Status
from tidegate.lifecycle.acting.stores import Stores
from tidegate.ports import Tables, Topics
from tidegate.replication.failures import PAGE, Failure, FailureReader, Selection
from tidegate.replication.topics import create_replication_topics, send

# Two operators who ask at once: the entry of whoever was first keeps the other from sending the same failure again. It
# lasts until the status has changed, and longer than anybody waits for that.
_CLAIMS = "replication/retries/"
_CLAIM_SECONDS = 60.0
_HEADS = 8


@dataclass(frozen=True, slots=True)
class RetriedPage:
    """What was retried of one page of failures; `next_marker` is empty on the last."""

    failures: tuple[Failure, ...]
    next_marker: str = ""


class FailureRetry:
    """`stores` opens the stores of the sources, and is asked for them when there is something to retry."""

    def __init__(self, tables: Tables, topics: Topics, stores: Callable[[], Stores]) -> None:
        self._tables = tables
        self._topics = topics
        self._stores = stores

    def retry(self, wanted: Iterable[FailedKey], *, now: float) -> list[Failure]:
        """Those that are sent once more, in the order in which they were asked for. What has not failed, what has no
        version at the source any more, and what somebody else has just retried is left out and left alone."""
        reader = FailureReader(self._tables)
        retried: list[Failure] = []
        for batch in _batches(dict.fromkeys(wanted)):
            found = [failure for failed in batch if (failure := reader.find(failed)) is not None]
            retried += self._send(found, now=now)
        return retried

    def retry_page(self, selection: Selection, marker: str = "", *, now: float) -> RetriedPage:
        """Retries what matches of one page of the list, so that whoever retries all of it sees how far it is."""
        page = FailureReader(self._tables).page(selection, marker)
        return RetriedPage(tuple(self._send(page.failures, now=now)), page.next_marker)

    def _send(self, failures: Sequence[Failure], *, now: float) -> list[Failure]:
        there = self._at_source(failures)
        claimed = [failure for failure in there if self._claim(failure)]
        if not claimed:
            return []
        create_replication_topics(self._topics)
        try:
            send(self._topics, STATUS_TOPIC, [_pending(failure, now) for failure in claimed])
            send(self._topics, REPLICATION_TOPIC, [_task(failure) for failure in claimed])
            self._tables.change({failure.failed.entry: None for failure in claimed})
        except BaseException:
            for failure in claimed:
                self._tables.delete(_claim_of(failure))
            raise
        return claimed

    def _at_source(self, failures: Sequence[Failure]) -> list[Failure]:
        """Those whose version is still there. A delete marker has no metadata but its record."""
        if all(failure.record.is_marker for failure in failures):
            return list(failures)
        stores = self._stores()
        try:
            with ThreadPoolExecutor(_HEADS) as pool:
                found = pool.map(lambda failure: _is_there(stores, failure.record), failures)
                return [failure for failure, is_there in zip(failures, found, strict=True) if is_there]
        finally:
            stores.close()

    def _claim(self, failure: Failure) -> bool:
        return self._tables.put_if_absent(_claim_of(failure), "", expires_in=_CLAIM_SECONDS)


def _is_there(stores: Stores, record: ReplicationRecord) -> bool:
    if record.is_marker:
        return True
    try:
        return stores.of_pool(record.pool).head(record.bucket, record.key, record.version_id) is not None
    except NotFound:
        return False


def _claim_of(failure: Failure) -> str:
    """One of its own for each time that the version fails."""
    return f"{_CLAIMS}{failure.state.site}/{failure.state.since!r}/{failure.record.entry}"


def _pending(failure: Failure, now: float) -> StatusUpdate:
    record, state = failure.record, failure.state
    return StatusUpdate(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        site=state.site,
        status=Status.PENDING,
        at=now,
        is_retry=True,
        size=record.size,
    )


def _task(failure: Failure) -> ReplicationTask:
    record = failure.record
    return ReplicationTask(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        ts_ns=record.ts_ns,
        sites=(failure.state.site,),
    )


def _batches(wanted: Iterable[FailedKey]) -> Iterator[list[FailedKey]]:
    each = iter(wanted)
    while batch := list(islice(each, PAGE)):
        yield batch
