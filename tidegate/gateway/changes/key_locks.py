"""The order of changes to one key, over all gateway processes of a machine.

A change holds its key's lock from just before the backend gets the last bytes of the request until
the event has its time. So the log orders the changes of a key as the backend did, and its times
strictly rise even when the clock steps back. The locks have numbers, which keys share by their hashes, and are locks on
the bytes of files: the kernel frees them when a process dies, however it dies. Whoever takes a lock makes the kernel
look at all locks of that file, so they are spread over many files, and deletes of hundreds of keys do not slow each
other down. One more file holds the last time given out per lock.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mmap
import os
import struct
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from tidegate.space import reserve

# So many that two deletes of hundreds of keys rarely meet.
LOCKS = 1 << 20
_LOCK_FILES = 64
_SLOT = struct.Struct("<q")
_FLOCK = struct.Struct("hhqqi4x")
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02


def lock_number(bucket: str, key: str) -> int:
    return int.from_bytes(blake2b(f"{bucket}/{key}".encode(), digest_size=4).digest(), "little") % LOCKS


class KeyLocks:
    """One per gateway process, all on the same file of times, with the files of locks in a folder beside it."""

    def __init__(self, file: Path) -> None:
        times = _opened(file)
        try:
            reserve(times, LOCKS * _SLOT.size, file)
            self._last = mmap.mmap(times, LOCKS * _SLOT.size)
        finally:
            os.close(times)
        folder = file.with_name(file.name + ".locks")
        folder.mkdir(mode=0o700, exist_ok=True)
        self._lock_files = [_opened(folder / f"{number:02}") for number in range(_LOCK_FILES)]
        self._waiting: dict[int, deque[asyncio.Future[bool]]] = {}

    def try_acquire(self, number: int) -> bool:
        """Takes the lock if nobody has it, in this process or another."""
        if number in self._waiting or not self._lock_file(number):
            return False
        self._waiting[number] = deque()
        return True

    async def acquire(self, number: int) -> None:
        """Waits for the lock and takes it."""
        locked = False
        if number in self._waiting:
            next_in_line: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting[number].append(next_in_line)
            try:
                locked = await next_in_line
            except asyncio.CancelledError:
                if next_in_line.done() and not next_in_line.cancelled():
                    self._hand_over(number, locked=next_in_line.result())
                raise
        else:
            self._waiting[number] = deque()
        pause = FIRST_PAUSE
        try:
            while not locked and not self._lock_file(number):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        except BaseException:
            self._hand_over(number, locked=False)
            raise

    async def acquire_all(self, numbers: Iterable[int]) -> list[int]:
        """Takes several, in rising order so that two callers cannot wait for each other."""
        held: list[int] = []
        try:
            for number in sorted(set(numbers)):
                if not self.try_acquire(number):
                    await self.acquire(number)
                held.append(number)
        except BaseException:
            self.release_all(held)
            raise
        return held

    def release(self, number: int) -> None:
        """Hands the lock to the next in this process, or gives it back."""
        self._hand_over(number, locked=True)

    def release_all(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.release(number)

    def next_time(self, number: int, now_ns: int) -> int:
        """The time of a change whose lock the caller holds: now, or just after the last one given."""
        at = number * _SLOT.size
        (last,) = _SLOT.unpack_from(self._last, at)
        if now_ns <= last:
            now_ns = last + 1
        _SLOT.pack_into(self._last, at, now_ns)
        return now_ns

    async def all_released(self) -> None:
        """Returns when every lock has been given back: here, at once."""

    def close(self) -> None:
        self._last.close()
        for lock_file in self._lock_files:
            os.close(lock_file)

    def _hand_over(self, number: int, *, locked: bool) -> None:
        """The next in line goes on with the lock on the file, or, where it was not had yet, with the wait for it."""
        waiting = self._waiting[number]
        while waiting:
            next_in_line = waiting.popleft()
            if not next_in_line.done():
                next_in_line.set_result(locked)
                return
        del self._waiting[number]
        if locked:
            self._set_lock(number, fcntl.F_UNLCK)

    def _lock_file(self, number: int) -> bool:
        try:
            self._set_lock(number, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def _set_lock(self, number: int, kind: int) -> None:
        lock_file = self._lock_files[number % _LOCK_FILES]
        fcntl.fcntl(lock_file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, number, 1, 0))


def _opened(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
