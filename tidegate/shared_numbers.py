"""Numbers that all processes of this machine see at once: a small file, mapped into each of them.

Looking at a number costs no system call, and waiting for one to change costs nothing until it does. Who changes
numbers that belong together takes the file's lock; the kernel frees it when a process dies.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from pathlib import Path

from tidegate import brief_calls
from tidegate.core.errors import Unavailable
from tidegate.space import reserve

NUMBER_BYTES = 8
_LOW_HALF = 0 if sys.byteorder == "little" else 4
_FIRST_PAUSE_SECONDS = 0.00005
_LONGEST_PAUSE_SECONDS = 0.002


class SharedNumbers:
    """The numbers in `file`, which is made if it is missing. All are 0 at first. The file is closed with the object."""

    def __init__(self, file: Path, count: int) -> None:
        self._file = file
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        reserve(self._fd, count * NUMBER_BYTES, file)
        self._map = mmap.mmap(self._fd, count * NUMBER_BYTES)
        self._numbers = memoryview(self._map).cast("Q")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def __getitem__(self, index: int) -> int:
        return self._numbers[index]

    def __setitem__(self, index: int, number: int) -> None:
        self._numbers[index] = number

    def wait(self, index: int, seen: int, seconds: float) -> None:
        """Returns when the number is no longer the one that was seen, when the time is over, or sooner."""
        brief_calls.wait(self._address + index * NUMBER_BYTES + _LOW_HALF, seen, seconds)

    def wake(self, index: int) -> None:
        """Wakes everybody who waits for that number to change."""
        brief_calls.wake(self._address + index * NUMBER_BYTES + _LOW_HALF)

    def flush(self) -> None:
        """Returns when the numbers are on stable storage."""
        self._map.flush()

    def try_lock(self) -> bool:
        """Takes the lock, which the threads of a process share, unless another process has it."""
        return brief_calls.try_lock(self._fd)

    def lock(self, seconds: float) -> None:
        """Takes the lock; waits at most so long for other processes. A system call that waits could not be given up."""
        if self.try_lock():
            return
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while not self.try_lock():
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{self._file}: another process has kept it locked for {seconds:.0f} s; "
                    "look for a process that hangs"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def unlock(self) -> None:
        brief_calls.unlock(self._fd)
