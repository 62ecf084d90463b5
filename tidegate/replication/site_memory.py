"""What a replicator remembers of its own work, since records follow a moment later than what they tell of."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tidegate.core.replication.records import ReplicationRecord, SiteState
from tidegate.ports import StoredVersion

_MOST = 100_000


class _Id(NamedTuple):
    bucket_uid: str
    key: str
    version_id: str


class _Noted(NamedTuple):
    """None: the version was begun."""

    copy: StoredVersion | None
    at: float


class SiteMemory:
    """Of one replicator, since it was started. Of very many versions, the oldest are forgotten: by then their records
    tell. Another replicator of the site may have had the partition meanwhile: a record that has changed since outranks
    the memory. `now` gives the Unix time. May be shared by threads."""

    def __init__(self, started_at: float, most: int = _MOST, now: Callable[[], float] = time.time) -> None:
        self._started_at = started_at
        self._most = most
        self._now = now
        self._lock = threading.Lock()
        self._copies: OrderedDict[_Id, _Noted] = OrderedDict()

    def copy_of(self, record: ReplicationRecord, state: SiteState) -> StoredVersion | None:
        """`state` is the record's at the site."""
        with self._lock:
            noted = self._copies.get(_id(record))
        if noted is None or noted.copy is None:
            return None
        is_outdated = state.since > noted.at and state.replica_version_id != noted.copy.version_id
        return None if is_outdated else noted.copy

    def began(self, record: ReplicationRecord) -> None:
        """From now on, it may be at the site."""
        self._note(record, None)

    def arrived(self, record: ReplicationRecord, copy: StoredVersion) -> None:
        self._note(record, copy)

    def is_fresh(self, record: ReplicationRecord, since: float) -> bool:
        """Whether the version cannot have been put yet: it became PENDING after the start, and was not begun."""
        with self._lock:
            return since > self._started_at and _id(record) not in self._copies

    def _note(self, record: ReplicationRecord, copy: StoredVersion | None) -> None:
        with self._lock:
            self._copies[_id(record)] = _Noted(copy, self._now())
            self._copies.move_to_end(_id(record))
            while len(self._copies) > self._most:
                self._copies.popitem(last=False)


def _id(record: ReplicationRecord) -> _Id:
    return _Id(record.bucket_uid, record.key, record.version_id)
