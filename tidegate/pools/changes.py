"""A counter in shared memory that grows whenever pools, keys, buckets or routes change.

It lets gateways keep what they read from the tables and still see a change at once. Gateways on other
machines see it when their copies have aged (`gateway.route_seconds`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from tidegate.space import reserve

_BYTES = 8


class ChangeCounter:
    def __init__(self, data: Path) -> None:
        file = data / "run" / "changes"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        reserve(self._fd, _BYTES, file)
        self._map = mmap.mmap(self._fd, _BYTES)
        self._number = memoryview(self._map).cast("Q")  # gateways look at it several times per request

    @property
    def value(self) -> int:
        return self._number[0]

    def bump(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            self._number[0] += 1
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        self._number.release()
        self._map.close()
        os.close(self._fd)
