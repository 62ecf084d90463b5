"""What one consumer knows of its partitions between commits: plain values, no server.

Kafka keeps one offset per partition and group. Messages may be finished in any order, so the offset
committed is that of the first one not finished, and those finished beyond it are noted in the text
that Kafka stores with the offset: a successor does not deliver them again.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.ports import Message

# A broker takes 4096 bytes of text with an offset by default.
NOTE_BYTES = 4000
NOTE_LOOKS_AT = 2000
_NOTE_MARK = "done:"


PartitionId = tuple[str, int]  # Kafka's topic and partition


@dataclass(frozen=True, slots=True)
class Source:
    """Where a message was read: in its topic at first, in the group's retry topic later."""

    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> PartitionId:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Delivery:
    message: Message
    source: Source
    not_before: float = 0.0


class Progress:
    """How far a group has come in one partition."""

    def __init__(self, done_before: Iterable[int] = ()) -> None:
        self._open: OrderedDict[int, None] = OrderedDict()  # fetched and not finished, in order
        self._next: int | None = None  # after the last one fetched
        self._done_ahead = set(done_before)  # finished by a predecessor, not fetched yet

    def fetched(self, offset: int) -> bool:
        """Notes that the message was read. False if it is finished already."""
        if self._next is not None and offset < self._next:
            # Kafka goes over this stretch again, so nothing beyond may be taken for finished.
            self._open = OrderedDict.fromkeys(earlier for earlier in self._open if earlier < offset)
        self._next = offset + 1
        if offset in self._done_ahead:
            self._done_ahead.remove(offset)
            return False
        self._open[offset] = None
        return True

    def finished(self, offset: int) -> None:
        self._open.pop(offset, None)

    def to_commit(self) -> tuple[int, str] | None:
        """The offset to commit and the note to put with it; None before the first message."""
        if self._next is None:
            return None
        first = next(iter(self._open), self._next)
        return first, _write_note(first, self._done_beyond(first, self._next))

    def _done_beyond(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Runs of finished offsets above `first`, as (first, last)."""
        previous = first
        for offset in itertools.islice(self._open, NOTE_LOOKS_AT):
            if offset > previous + 1:
                yield previous + 1, offset - 1
            previous = offset
        if len(self._open) <= NOTE_LOOKS_AT and self._open and end > previous + 1:
            yield previous + 1, end - 1
        for offset in sorted(self._done_ahead)[:NOTE_LOOKS_AT]:
            yield offset, offset


def _write_note(base: int, runs: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    length = len(_NOTE_MARK)
    for first, last in runs:
        part = f"{first - base}-{last - base}" if last > first else f"{first - base}"
        length += len(part) + 1
        if length > NOTE_BYTES:
            break  # those left out are delivered again after a restart: at least once
        parts.append(part)
    return _NOTE_MARK + ",".join(parts) if parts else ""


def read_note(base: int, note: str) -> set[int]:
    """The offsets finished beyond the committed offset `base`."""
    done: set[int] = set()
    if not note.startswith(_NOTE_MARK):
        return done
    for part in note.removeprefix(_NOTE_MARK).split(","):
        first, _, last = part.partition("-")
        done.update(range(base + int(first), base + int(last or first) + 1))
    return done


class WaitingRoom:
    """Deliveries that are not due yet, the earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Delivery]] = []
        self._arrivals = itertools.count()
        self.size_bytes = 0

    def add(self, delivery: Delivery) -> None:
        heapq.heappush(self._heap, (delivery.not_before, next(self._arrivals), delivery))
        self.size_bytes += _size(delivery)

    def take_due(self, now: float, limit: int) -> list[Delivery]:
        due: list[Delivery] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            due.append(heapq.heappop(self._heap)[2])
        self.size_bytes -= sum(map(_size, due))
        return due

    def next_due(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def keep(self, wanted: Callable[[Delivery], bool]) -> None:
        self._heap = [entry for entry in self._heap if wanted(entry[2])]
        heapq.heapify(self._heap)
        self.size_bytes = sum(_size(entry[2]) for entry in self._heap)


def _size(delivery: Delivery) -> int:
    return len(delivery.message.value) + len(delivery.message.key) + 500
