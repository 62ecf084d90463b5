"""Retry of what has failed: an operator asks for versions once more.

For each version, in this order: its metadata is looked at, its status becomes PENDING, its task is queued, and its
entry leaves the list of failures. Many versions take each step together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Self, TypeVar

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import NotFound, TidegateError
from tidegate.core.replication.failed_keys import FailedKey, listed_value
from tidegate.core.replication.messages import REPLICATION_TOPIC, STATUS_TOPIC, ReplicationTask, StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, Status
from tidegate.lifecycle.acting.stores import Stores
from tidegate.ports import Tables, Topics
from tidegate.replication.failures import PAGE, Failure, FailureReader, Selection
from tidegate.replication.topics import create_replication_topics, send
from tidegate.table_pages import every

# A claim stands for one failure that is retried: of two operators who ask at once, one has it. Until all steps are
# taken it says what is to be sent, so that a retry that was cut off is finished by others; then it lasts until the
# status has changed, and longer than anybody waits for that.
CLAIMS = "replication/retries/"
_DONE = ""
_CLAIM_SECONDS = 60.0
# So long after it was begun, a retry is taken for cut off.
_CUT_OFF_SECONDS = 60.0
_HEADS = 8

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RetriedPage:
    """What was retried of one page of failures; `next_marker` is empty on the last."""

    failures: tuple[Failure, ...]
    next_marker: str = ""


@dataclass(frozen=True, slots=True)
class _Claim(JsonRecord):
    """What is to be sent. `at` is when the retry was asked for."""

    at: float
    failed: str
    record: ReplicationRecord
    site: str

    @classmethod
    def of(cls, failure: Failure, now: float) -> Self:
        return cls(now, str(failure.failed), failure.record, failure.state.site)

    @property
    def since(self) -> float:
        state = self.record.at(self.site)
        return state.since if state is not None else 0.0

    @property
    def entry(self) -> str:
        """One of its own for each time that the version fails."""
        return f"{CLAIMS}{self.site}/{self.since!r}/{self.record.entry}"

    def is_cut_off(self, now: float) -> bool:
        """Also one from a time that is still to come, since a clock was set back."""
        return abs(now - self.at) > _CUT_OFF_SECONDS


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
        claims = {failure.failed: _Claim.of(failure, now) for failure in self._at_source(failures)}
        taken = [failure for failure in failures if failure.failed in claims and self._take(claims[failure.failed])]
        if taken:
            create_replication_topics(self._topics)
            _carry_out(self._tables, self._topics, [claims[failure.failed] for failure in taken])
        return taken

    def _at_source(self, failures: Sequence[Failure]) -> list[Failure]:
        """Those whose version is not known to be gone. A delete marker has no metadata but its record."""
        if all(failure.record.is_marker for failure in failures):
            return list(failures)
        stores = self._stores()
        try:
            with ThreadPoolExecutor(_HEADS) as pool:
                found = pool.map(lambda failure: _is_there(stores, failure.record), failures)
                return [failure for failure, is_there in zip(failures, found, strict=True) if is_there]
        finally:
            stores.close()

    def _take(self, claim: _Claim) -> bool:
        return self._tables.put_if_absent(claim.entry, claim.to_json())


def finish_cut_off(tables: Tables, topics: Topics, *, now: float) -> int:
    """Finishes the retries that somebody began and did not end, and says how many. A step that is taken twice does no
    harm."""
    found = (_Claim.from_json(text) for _, text in every(tables, CLAIMS) if text != _DONE)
    finished = 0
    for claims in _batches(claim for claim in found if claim.is_cut_off(now)):
        _carry_out(tables, topics, claims)
        finished += len(claims)
    return finished


def _carry_out(tables: Tables, topics: Topics, claims: Sequence[_Claim]) -> None:
    """The steps that change something."""
    send(topics, STATUS_TOPIC, [_pending(claim) for claim in claims])
    send(topics, REPLICATION_TOPIC, [_task(claim) for claim in claims])
    while not _taken_off(tables, claims):
        pass  # somebody else has changed one of the entries meanwhile
    for claim in claims:
        tables.put(claim.entry, _DONE, expires_in=_CLAIM_SECONDS)


def _taken_off(tables: Tables, claims: Sequence[_Claim]) -> bool:
    """Takes the failures off the list, but not those that have come back since; False if one came back just now."""
    listed: dict[str, str | None] = {}
    for claim in claims:
        entry = FailedKey.parse(claim.failed).entry
        value = tables.get(entry)
        if value in ("", listed_value(claim.since)):
            listed[entry] = value
    return tables.change(dict.fromkeys(listed), expected=listed)


def _is_there(stores: Stores, record: ReplicationRecord) -> bool:
    if record.is_marker:
        return True
    try:
        return stores.of_pool(record.pool).head(record.bucket, record.key, record.version_id) is not None
    except NotFound:
        return False
    except TidegateError:
        return True  # it cannot be told here; the replicator looks at the source again, and says why


def _pending(claim: _Claim) -> StatusUpdate:
    record = claim.record
    return StatusUpdate(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        site=claim.site,
        status=Status.PENDING,
        at=claim.at,
        is_retry=True,
        size=record.size,
    )


def _task(claim: _Claim) -> ReplicationTask:
    record = claim.record
    return ReplicationTask(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        ts_ns=record.ts_ns,
        sites=(claim.site,),
    )


def _batches(wanted: Iterable[_T]) -> Iterator[list[_T]]:
    each = iter(wanted)
    while batch := list(islice(each, PAGE)):
        yield batch
