"""The bytes of a log: frames, each with a checksum, and the records in them.

A frame is `checksum, length, appended_at` and a body of that length. The body of a batch has a section for each of its
partitions: `partition, number of records, bytes, first offset`, then the records, each with the lengths of key and
value before them. So readers of one partition step over the others. One checksum holds for the batch: what was written
in part is no frame, and a batch is seen as a whole or not at all. The first frame of a segment is its header: it tells
which offset each partition has reached.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.ports import Message

_FRAME = struct.Struct("<IId")
_SECTION = struct.Struct("<HIIQ")
_RECORD = struct.Struct("<HI")
_CHECKED_FROM = 4  # the checksum covers all that follows it
_MAGIC = b"tidelog1"

FRAME_BYTES = _FRAME.size


@dataclass(frozen=True, slots=True)
class Frame:
    """`position` is where the frame begins in the log, `body` what follows its head."""

    position: int
    appended_at: float
    body: bytes

    @property
    def end(self) -> int:
        return self.position + FRAME_BYTES + len(self.body)


def frame(appended_at: float, body: bytes) -> bytes:
    head = _FRAME.pack(0, len(body), appended_at)[_CHECKED_FROM:]
    checksum = zlib.crc32(body, zlib.crc32(head))
    return checksum.to_bytes(_CHECKED_FROM, "little") + head + body


def frame_at(data: bytes, at: int, position: int) -> Frame | None:
    """The frame that begins there; None if it is not whole, or not what was written."""
    if at + FRAME_BYTES > len(data):
        return None
    checksum, length, appended_at = _FRAME.unpack_from(data, at)
    start = at + FRAME_BYTES
    body = data[start : start + length]
    if len(body) < length or zlib.crc32(body, zlib.crc32(data[at + _CHECKED_FROM : start])) != checksum:
        return None
    return Frame(position, appended_at, body)


def claimed_bytes(data: bytes) -> int:
    """How long the frame at the beginning says that it is; 0 if that cannot be told."""
    return FRAME_BYTES + _FRAME.unpack_from(data)[1] if len(data) >= FRAME_BYTES else 0


def header_body(ends: Sequence[int]) -> bytes:
    return _MAGIC + struct.pack(f"<{len(ends)}Q", *ends)


def header_ends(body: bytes) -> tuple[int, ...] | None:
    """The offsets in a segment's header; None if it is none."""
    if not body.startswith(_MAGIC):
        return None
    return struct.unpack(f"<{len(body) // 8 - 1}Q", body[len(_MAGIC) :])


def batch_body(sections: Iterable[tuple[int, int, Sequence[tuple[bytes, bytes]]]]) -> bytes:
    """The sections as (partition, first offset, keys and values)."""
    parts: list[bytes] = []
    for partition, first, records in sections:
        section = b"".join([_RECORD.pack(len(key), len(value)) + key + value for key, value in records])
        parts += (_SECTION.pack(partition, len(records), len(section), first), section)
    return b"".join(parts)


def _sections(body: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Per section: partition, first offset, number of records, and where they begin."""
    at = 0
    while at < len(body):
        partition, count, length, first = _SECTION.unpack_from(body, at)
        at += _SECTION.size
        yield partition, first, count, at
        at += length


def ends(batch: Frame) -> Iterator[tuple[int, int]]:
    """Which offset each of its partitions reaches with the batch."""
    for partition, first, count, _ in _sections(batch.body):
        yield partition, first + count


def messages(batch: Frame, topic: str, wanted: int, least: int) -> Iterator[Message]:
    """The records of one partition from an offset on."""
    body, appended_at = batch.body, batch.appended_at
    for partition, first, count, at in _sections(body):
        if partition == wanted and first + count > least:
            for offset in range(first, first + count):
                key_length, value_length = _RECORD.unpack_from(body, at)
                key_at = at + _RECORD.size
                value_at = key_at + key_length
                at = value_at + value_length
                if offset >= least:
                    key = body[key_at:value_at].decode()
                    yield Message(topic, partition, offset, key, body[value_at:at], appended_at)
