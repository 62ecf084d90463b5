"""What the processes that use one topic's log must agree on: a few shared numbers beside its segments."""

from __future__ import annotations

import errno
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.adapters.log_segments import Segments, sync_directory
from tidegate.core.errors import Full, Unavailable
from tidegate.shared_numbers import SharedNumbers

BUSY_SECONDS = 15.0

_FILE = "state"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_FORM = 1
_FORM_AT, _PARTITIONS, _ACTIVE, _WRITTEN, _COMMITTED, _CUTS, _CHANGES, _WRITING, _STARTS = range(9)


class _Lock:
    """Keeps threads apart, and processes."""

    def __init__(self, numbers: SharedNumbers) -> None:
        self._numbers = numbers
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        if not self._threads.acquire(timeout=BUSY_SECONDS):
            raise Unavailable(f"another thread has kept the log locked for {BUSY_SECONDS:.0f} s; look at the disk")
        try:
            self._numbers.lock(BUSY_SECONDS)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._numbers.unlock()
        self._threads.release()

    def try_enter(self) -> bool:
        """Waits for nobody."""
        if not self._threads.acquire(blocking=False):
            return False
        if self._numbers.try_lock():
            return True
        self._threads.release()
        return False


class LogState:
    """Positions in the log; those who change them hold the lock.

    `active` is the beginning of the segment that is written to. Up to `written` it has whole batches, up to
    `committed` they are on stable storage: readers see no more. `cuts` grows when batches between the two are taken
    away again. `changes` grows whenever there is something new for consumers, and wakes them. `is_writing` is left
    behind by a process that dies while it writes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        file = directory / _FILE
        self._numbers = SharedNumbers(file, file.stat().st_size // 8)
        if self._numbers[_FORM_AT] != _FORM:
            raise Unavailable(f"{file} was not written by this version of Tidegate")
        self.partitions = self._numbers[_PARTITIONS]
        self.lock = _Lock(self._numbers)

    @property
    def active(self) -> int:
        return self._numbers[_ACTIVE]

    @property
    def written(self) -> int:
        return self._numbers[_WRITTEN]

    @written.setter
    def written(self, position: int) -> None:
        self._numbers[_WRITTEN] = position

    @property
    def committed(self) -> int:
        return self._numbers[_COMMITTED]

    @committed.setter
    def committed(self, position: int) -> None:
        self._numbers[_COMMITTED] = position

    @property
    def is_writing(self) -> bool:
        return self._numbers[_WRITING] != 0

    @is_writing.setter
    def is_writing(self, value: bool) -> None:
        self._numbers[_WRITING] = int(value)

    @property
    def cuts(self) -> int:
        return self._numbers[_CUTS]

    def cut(self, position: int) -> None:
        """What was written beyond the position is taken away again."""
        self._numbers[_CUTS] += 1
        self._numbers[_WRITTEN] = position

    def begin_segment(self, base: int, first_batch: int) -> None:
        """The header that lies between the two is on stable storage."""
        self._numbers[_ACTIVE] = base
        self._numbers[_WRITTEN] = first_batch
        self._numbers[_COMMITTED] = first_batch

    @property
    def changes(self) -> int:
        return self._numbers[_CHANGES]

    def announce(self) -> None:
        """Wakes all consumers that wait; for who holds the lock."""
        self._numbers[_CHANGES] += 1
        self._numbers.wake(_CHANGES)

    def wait(self, changes: int, seconds: float) -> None:
        """Until there are more changes than that; at most so long."""
        self._numbers.wait(_CHANGES, changes, seconds)

    @property
    def starts(self) -> list[int]:
        """Per partition the first offset that is still held."""
        return [self._numbers[_STARTS + partition] for partition in range(self.partitions)]

    def start_at(self, partition: int, offset: int) -> None:
        """On stable storage when it returns."""
        self._numbers[_STARTS + partition] = offset
        self._numbers.flush()


def create(directory: Path, partitions: int) -> None:
    """Makes the directory of a log, whole or not at all; does nothing where it exists."""
    if directory.exists():
        return
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        numbers = SharedNumbers(temporary / _FILE, _STARTS + partitions)
        numbers[_FORM_AT], numbers[_PARTITIONS] = _FORM, partitions
        first_batch = Segments(temporary).begin(0, [0] * partitions)
        numbers[_WRITTEN] = numbers[_COMMITTED] = first_batch
        numbers.flush()
        sync_directory(temporary)
        temporary.rename(directory)
        sync_directory(directory.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise  # otherwise another process was faster


@contextmanager
def translated(directory: Path) -> Iterator[None]:
    """Makes errors of the disk those of the port."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise Full(f"{directory}: the disk is full; free some space ({error.strerror})") from error
        raise Unavailable(f"{directory}: {error.strerror or error}; check the disk and the permissions") from error
