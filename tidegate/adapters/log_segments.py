"""The files of one topic's log: segments, which follow each other without a gap.

A place in the log is a *position*: the bytes before it since the log began, headers included. A segment is named for
the position at which it begins. No frame lies in two segments. The last one has *room* behind its last frame: zeros,
which are no frame. What is written over them needs no other change of the file, and so is synced in half the time.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate import brief_calls
from tidegate.adapters.log_frames import Frame, claimed_bytes, frame, frame_at, header_body, header_ends
from tidegate.core.errors import Unavailable

_SUFFIX = ".log"
_CHUNK_BYTES = 256 * 1024


class Damaged(Unavailable):
    """There is no whole frame at the position."""

    def __init__(self, file: Path, position: int) -> None:
        super().__init__(f"{file} is damaged at position {position}; restore it from a copy")
        self.position = position


class OpenSegment:
    """A segment that is written to. Its file is closed when the last who uses it has dropped it."""

    def __init__(self, file: Path, base: int) -> None:
        self.base = base
        self.fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    @property
    def end(self) -> int:
        """The position at which the file ends, its room included."""
        return self.base + os.fstat(self.fd).st_size

    def is_room(self, position: int) -> bool:
        """Whether there is nothing but zeros from the position on."""
        return not os.pread(self.fd, self.end - position, position - self.base).strip(b"\0")

    def cut(self, position: int) -> None:
        os.ftruncate(self.fd, position - self.base)


class Segments:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bases: list[int] = []
        self._headers: dict[int, tuple[int, ...]] = {}
        self.look()

    def look(self) -> None:
        """Sees which segments there are now."""
        self.bases = sorted(int(path.stem) for path in self._directory.iterdir() if path.suffix == _SUFFIX)
        self._headers = {base: self._headers[base] for base in self.bases if base in self._headers}

    def file(self, base: int) -> Path:
        return self._directory / f"{base:020}{_SUFFIX}"

    def open(self, base: int) -> OpenSegment:
        return OpenSegment(self.file(base), base)

    def header(self, base: int) -> tuple[int, ...]:
        """Which offset each partition had reached when the segment was begun."""
        known = self._headers.get(base)
        if known is None:
            data = _read(self.file(base), 0, _CHUNK_BYTES)
            found = frame_at(data, 0, base)
            known = header_ends(found.body) if found else None
            if known is None:
                raise Damaged(self.file(base), base)
            self._headers[base] = known
        return known

    def begin(self, base: int, ends: Sequence[int]) -> int:
        """Makes a segment; returns where its first batch begins. It has its name only when it is whole."""
        header = frame(time.time(), header_body(ends))
        temporary = self._directory / f"{base:020}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, header, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(self.file(base))
        sync_directory(self._directory)
        return base + len(header)

    def remove_first(self) -> None:
        base = self.bases.pop(0)
        self._headers.pop(base, None)
        self.file(base).unlink(missing_ok=True)

    def batches(self, start: int, end: int) -> Iterator[Frame]:
        """The batches from one position to another, both of which are ends of frames; `Damaged` where there is none."""
        position, size = start, _CHUNK_BYTES
        while position < end:
            base = self._base_of(position)
            data = _read(self.file(base), position - base, min(size, end - position))
            if not data and base == self.bases[-1]:
                self.look()
                if base == self.bases[-1]:
                    raise Damaged(self.file(base), position)
                continue
            at = 0
            while found := frame_at(data, at, position + at):
                if found.position != base:
                    yield found
                at = found.end - position
            size = _CHUNK_BYTES if at else self._larger(data, size, position, base, end)
            position += at

    def _larger(self, data: bytes, size: int, position: int, base: int, end: int) -> int:
        """How much must be read for the frame that was too large for what was read."""
        needed = claimed_bytes(data)
        if needed <= size or needed > end - position:
            raise Damaged(self.file(base), position)
        return needed

    def _base_of(self, position: int) -> int:
        index = bisect_right(self.bases, position) - 1
        if index < 0:
            raise FileNotFoundError(f"the segment of position {position} was removed")
        return self.bases[index]


def write_all(fd: int, data: bytes, at: int) -> None:
    """Writes at that place of a file; a disk that has space for a part only takes that part before it refuses."""
    written = 0
    while written < len(data):
        written += brief_calls.write(fd, data[written:] if written else data, at + written)


def sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(file: Path, at: int, size: int) -> bytes:
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, at)
    finally:
        os.close(fd)
