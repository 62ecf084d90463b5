"""Writing one topic's log, by many processes at once.

Who appends holds the lock only while it writes; it waits for the disk without it, so that others write meanwhile. A
sync covers everything that was written to the file before it, by whomever: who finds that another's sync has covered
its own batch needs none. Then the batch is *committed*, which readers see.

A process that dies while it writes leaves a torn end. The next one that appends finds that it was writing, keeps the
whole batches and cuts the rest off; so does everyone who opens the log, since after a power cut nobody remembers. Room
that nobody has written to is left as it is.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.adapters.log_frames import batch_body, frame
from tidegate.adapters.log_reader import Tail, start_of
from tidegate.adapters.log_segments import Damaged, OpenSegment, Segments, write_all
from tidegate.adapters.log_state import LogState
from tidegate.core.errors import NotFound, Unavailable
from tidegate.ports import Record

# What is read when a log is opened: small enough that this takes some milliseconds.
SEGMENT_BYTES = 8 << 20
_ROOM_BYTES = 256 * 1024
_PROBE_BYTES = 64 * 1024


def partition_of(key: bytes, partitions: int) -> int:
    """Stable over processes and versions: equal keys always meet in one partition."""
    return zlib.crc32(key) % partitions


class LogAppender:
    """Safe for threads."""

    def __init__(self, directory: Path, state: LogState) -> None:
        self._state = state
        self._segments = Segments(directory)
        self._active: OpenSegment | None = None
        self._tail: Tail | None = None
        self._cuts = 0
        if state.lock.try_enter():  # otherwise whoever holds the lock has seen to it
            try:
                self._recover()
            finally:
                state.lock.__exit__()

    def append(self, keys: Sequence[bytes], records: Sequence[Record]) -> None:
        chosen = [self._partition(key, record) for key, record in zip(keys, records, strict=True)]
        with self._state.lock:
            segment = self._writable()
            end = self._write(segment, chosen, keys, records)
            cuts = self._state.cuts
        self._commit(segment, end, cuts)

    def probe(self) -> None:
        """Makes some more room."""
        with self._state.lock:
            segment = self._writable()
            write_all(segment.fd, bytes(_PROBE_BYTES), segment.end - segment.base)
            self._sync(segment)

    def trim(self, partition: int, before: int) -> None:
        """Forgets the records, and removes the segments that hold nothing else."""
        with self._state.lock:
            if before <= self._state.starts[partition]:
                return
            self._state.start_at(partition, before)
            starts = self._state.starts
            self._segments.look()
            while len(self._segments.bases) > 1 and all(
                start >= end for start, end in zip(starts, self._segments.header(self._segments.bases[1]), strict=True)
            ):
                self._segments.remove_first()

    def _partition(self, key: bytes, record: Record) -> int:
        if record.partition is None:
            return partition_of(key, self._state.partitions)
        if not 0 <= record.partition < self._state.partitions:
            raise NotFound(f"there is no partition {record.partition}")
        return record.partition

    # With the lock held

    def _writable(self) -> OpenSegment:
        """The segment to write to. Behind the last batch there is nothing but room, and the tail is there, too."""
        segment = self._open_active()
        if self._state.is_writing:
            self._recover()
            segment = self._open_active()
        if self._tail is None or self._cuts != self._state.cuts:
            self._tail, self._cuts = start_of(self._segments, segment.base), self._state.cuts
        self._tail.follow(self._segments, segment.base, self._state.written)
        return self._begin_segment(segment) if self._state.written >= segment.base + SEGMENT_BYTES else segment

    def _open_active(self) -> OpenSegment:
        if self._active is None or self._active.base != self._state.active:
            self._segments.look()
            self._active = self._segments.open(self._state.active)
        return self._active

    def _begin_segment(self, last: OpenSegment) -> OpenSegment:
        """What the last one holds is committed first: nobody syncs it after this."""
        assert self._tail
        last.cut(self._state.written)
        self._sync(last)
        base = self._state.committed = self._state.written
        first_batch = self._segments.begin(base, self._tail.ends)
        self._state.begin_segment(base, first_batch)
        segment = self._open_active()
        self._tail.position = first_batch
        return segment

    def _write(
        self, segment: OpenSegment, chosen: Sequence[int], keys: Sequence[bytes], records: Sequence[Record]
    ) -> int:
        """Writes one batch; returns the position at which it ends."""
        assert self._tail
        sections: dict[int, list[tuple[bytes, bytes]]] = {}
        for partition, key, record in zip(chosen, keys, records, strict=True):
            sections.setdefault(partition, []).append((key, record.value))
        ends = self._tail.ends
        body = batch_body([(partition, ends[partition], section) for partition, section in sections.items()])
        data = frame(time.time(), body)
        start = self._tail.position
        self._make_room(segment, start + len(data))
        self._state.is_writing = True  # if this process dies, the next one cuts off what there is of it
        try:
            write_all(segment.fd, data, start - segment.base)
        except OSError:
            segment.cut(start)  # the zeros of the room could be all that it lacks
            raise
        end = start + len(data)
        self._state.written = self._tail.position = end
        for partition, section in sections.items():
            ends[partition] += len(section)
        self._state.is_writing = False
        return end

    def _make_room(self, segment: OpenSegment, needed: int) -> None:
        """Up to the position and beyond. A disk that has too little space for that may have enough for the batch."""
        if needed > segment.end:
            with suppress(OSError):
                write_all(segment.fd, bytes(needed - segment.end + _ROOM_BYTES), segment.end - segment.base)

    def _recover(self) -> None:
        """Keeps the batches that are whole, on stable storage, and cuts off what follows them."""
        self._segments.look()
        segment = self._segments.open(self._segments.bases[-1])
        end = segment.end
        committed = max(self._state.committed, self._segments.bases[0])
        try:
            for _ in self._segments.batches(committed if committed <= end else segment.base, end):
                pass
        except Damaged as error:
            if error.position <= segment.base:
                raise
            end = error.position
            if not segment.is_room(end):
                segment.cut(end)
        if end == self._state.written == self._state.committed:
            self._state.is_writing = False
            return
        self._sync(segment)
        if end < self._state.written:
            self._state.cut(end)
        self._state.begin_segment(segment.base, end)
        self._state.is_writing = False
        self._active = segment

    def _sync(self, segment: OpenSegment) -> None:
        try:
            os.fdatasync(segment.fd)
        except OSError:
            self._take_back(segment)
            raise

    def _take_back(self, segment: OpenSegment) -> None:
        """After a sync that failed nobody knows what the disk has, and the next one would not tell. All that was not
        committed is taken away."""
        if self._state.committed >= segment.base:  # otherwise the log has not been opened since a power cut
            self._state.cut(self._state.committed)
            segment.cut(self._state.committed)

    # Without the lock

    def _commit(self, segment: OpenSegment, end: int, cuts: int) -> None:
        """Returns when the batch that ends there is on stable storage and seen by readers."""
        if self._state.committed < end:
            try:
                os.fdatasync(segment.fd)
            except OSError:
                with self._state.lock:
                    self._take_back(self._open_active())
                raise
        with self._state.lock:
            if self._state.cuts != cuts:
                raise Unavailable("the disk refused what another process wrote, and with it what was written here")
            self._state.committed = max(self._state.committed, end)
            self._state.announce()
