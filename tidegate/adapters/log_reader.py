"""Reading one topic's log. Readers see the batches that are on stable storage, and no others.

Nothing on the disk leads from an offset to its place. A segment's header tells with which offsets it begins, and what
was read once is remembered coarsely: a checkpoint every quarter of a mebibyte, and where the last read of each
partition ended.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidegate.adapters.log_frames import Frame, ends, messages
from tidegate.adapters.log_segments import Segments
from tidegate.adapters.log_state import LogState
from tidegate.ports import Message

_CHECKPOINT_BYTES = 256 * 1024
_ATTEMPTS = 10

Found = TypeVar("Found")


@dataclass(slots=True)
class Tail:
    """A position in the log, and the offset that each partition has reached there."""

    position: int
    ends: list[int]

    def take(self, batch: Frame) -> None:
        for partition, end in ends(batch):
            self.ends[partition] = end
        self.position = batch.end

    def follow(self, segments: Segments, active: int, position: int) -> None:
        """Goes on to the position, which lies in the active segment: what came before that is in its header, and its
        files may be gone."""
        if self.position < active:
            self.position, self.ends = active, list(segments.header(active))
        for batch in segments.batches(self.position, position):
            self.take(batch)
        self.position = position


def start_of(segments: Segments, base: int) -> Tail:
    """The beginning of a segment."""
    return Tail(base, list(segments.header(base)))


class LogReader:
    """Safe for threads."""

    def __init__(self, topic: str, state: LogState, segments: Segments) -> None:
        self._topic = topic
        self._state = state
        self._segments = segments
        self._mutex = threading.Lock()
        self._tail = start_of(segments, segments.bases[-1])
        self._checkpoints: dict[int, list[tuple[int, tuple[int, ...]]]] = {}  # by segment: (position, ends)
        self._reached: dict[int, tuple[int, int]] = {}  # by partition: (offset, position)

    def bounds(self) -> list[tuple[int, int]]:
        return self._despite_trimming(self._bounds)

    def read(self, partition: int, offset: int, limit: int) -> list[Message]:
        return self._despite_trimming(lambda: self._read(partition, offset, limit))

    def _despite_trimming(self, look: Callable[[], Found]) -> Found:
        """A segment may be removed between seeing and opening it: what is left begins later."""
        for _ in range(_ATTEMPTS):
            try:
                return look()
            except FileNotFoundError:
                with self._mutex:
                    self._segments.look()
        return look()

    def _bounds(self) -> list[tuple[int, int]]:
        with self._mutex:
            starts = self._state.starts  # first: no start is seen beyond its end
            return list(zip(starts, self._follow().ends, strict=True))

    def _read(self, partition: int, offset: int, limit: int) -> list[Message]:
        with self._mutex:
            tail = self._follow()
            end, following = tail.position, tail.ends[partition]
            offset = max(offset, self._state.starts[partition])
            if offset >= following:
                return []
            known, position = self._reached.get(partition, (-1, 0))
            if known != offset or position < self._segments.bases[0]:
                position = self._seek(partition, offset, end)
        wanted = min(limit, following - offset)
        found: list[Message] = []
        for batch in self._segments.batches(position, end):
            found += messages(batch, self._topic, partition, offset)
            if len(found) >= wanted:
                # The batch may hold more than was wanted.
                position = batch.end if len(found) == wanted else batch.position
                break
        with self._mutex:
            self._reached[partition] = (offset + wanted, position)
        return found[:wanted]

    def _follow(self) -> Tail:
        """Takes notice of what was appended since."""
        active = self._state.active  # first: what is committed then lies in it, or in one that follows it
        self._tail.follow(self._segments, active, max(active, self._tail.position, self._state.committed))
        return self._tail

    def _seek(self, partition: int, offset: int, end: int) -> int:
        """The position of the batch that holds the offset."""
        segments = self._segments
        index = bisect_right(segments.bases, offset, key=lambda base: segments.header(base)[partition]) - 1
        if index < 0:
            raise FileNotFoundError(f"the segment with the offset {offset} was removed")
        base = segments.bases[index]
        known = self._checkpoints.setdefault(base, [(base, segments.header(base))])
        nearest = bisect_right(known, offset, key=lambda checkpoint: checkpoint[1][partition]) - 1
        tail = Tail(known[nearest][0], list(known[nearest][1]))
        for batch in segments.batches(tail.position, end):
            if batch.position >= known[-1][0] + _CHECKPOINT_BYTES:
                known.append((batch.position, tuple(tail.ends)))
            tail.take(batch)
            if tail.ends[partition] > offset:
                return batch.position
        return end
