"""The first phase of deletion: a pending delete is sent for each piece of data, then the data leaves its record.

Sending and updating the record are not one transaction. If the second is not done, the record still refers to the data,
and the second phase leaves the data alone. Only what was sent leaves the record, so that nothing is forgotten.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidegate import metrics
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.pending_deletes import PendingDelete
from tidegate.ports import Record, Topics

# Those that wait for the end of a grace, with its Unix time: `deletion/grace/LOCATION/ORIGIN` in the tables.
AWAITING_GRACE = "deletion/grace/"
_BATCH = 500
_MOST_BELIEVED = 100_000

logger = logging.getLogger(__name__)
Piece = TypeVar("Piece", bound=Hashable)


def record_of(pending: PendingDelete) -> Record:
    """As it stands in the topic: pending deletes of one key keep their order."""
    return Record(f"{pending.bucket_uid}/{pending.key}", pending.to_bytes())


def append_pending(topics: Topics, topic: str, pendings: Sequence[PendingDelete]) -> None:
    """All of them, or none: then it raises `Unavailable` or `InvalidInput`."""
    topics.append(topic, [record_of(pending) for pending in pendings])
    for data, count in Counter(pending.data_type.value for pending in pendings).items():
        metrics.DELETION_SENT.labels(data).inc(count)


def send_pending(topics: Topics, topic: str, pendings: Sequence[PendingDelete]) -> list[PendingDelete]:
    """Gives those that were sent. One that cannot be written is left out; when the topic fails, all that follow are."""
    sent: list[PendingDelete] = []
    try:
        for start in range(0, len(pendings), _BATCH):
            sent += _send_batch(topics, topic, pendings[start : start + _BATCH])
    except Unavailable as error:
        logger.warning("%d of %d pending deletes were not sent: %s", len(pendings) - len(sent), len(pendings), error)
    return sent


def _send_batch(topics: Topics, topic: str, batch: Sequence[PendingDelete]) -> list[PendingDelete]:
    try:
        append_pending(topics, topic, batch)
        return list(batch)
    except InvalidInput as error:
        if len(batch) == 1:
            logger.error("a pending delete cannot be written: %s", error)
            return []
    return [pending for one in batch for pending in _send_batch(topics, topic, [one])]


class BelievedData:
    """Data that this process itself sent and dropped from its record: it is not asked whose it is. Of very many, the
    oldest are forgotten, and asked like any other. May be shared by threads."""

    def __init__(self, most: int = _MOST_BELIEVED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, pending: PendingDelete) -> None:
        if not pending.location:
            return
        with self._lock:
            self._known[pending.location, pending.data_key] = None
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def remove(self, pending: PendingDelete) -> None:
        with self._lock:
            self._known.pop((pending.location, pending.data_key), None)

    def __contains__(self, pending: PendingDelete) -> bool:
        with self._lock:
            return (pending.location, pending.data_key) in self._known


@dataclass(frozen=True, slots=True)
class FirstPhase:
    """Of one process: `believed` is shared with its second phase, if it has one."""

    topics: Topics
    topic: str
    believed: BelievedData | None = None

    def drop(
        self,
        pieces: Sequence[Piece],
        marked: Sequence[Piece],
        pending_of: Callable[[Piece], PendingDelete],
        update: Callable[[list[Piece]], None],
    ) -> list[Piece]:
        """Drops the marked pieces of data from the record that holds `pieces`, and gives what is left in it.

        `update` writes the record with what is left; it is called once, and only if something was sent. What could not
        be sent stays in the record, to be marked again.
        """
        pendings = {piece: pending_of(piece) for piece in marked}
        sent = set(map(id, send_pending(self.topics, self.topic, list(pendings.values()))))
        gone = {piece for piece, pending in pendings.items() if id(pending) in sent}
        left = [piece for piece in pieces if piece not in gone]
        if gone:
            update(left)
        if self.believed is not None:
            for piece in gone:
                self.believed.add(pendings[piece])
        return left
