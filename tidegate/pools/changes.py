"""A number that every process of this machine sees grow when pools, keys, buckets or routes change.

It lets gateways keep what they read from the tables and still see a change at once. Gateways on other
machines see it when their copies have aged (`gateway.route_seconds`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

_NUMBER = struct.Struct("<Q")


class ChangeCounter:
    def __init__(self, data: Path) -> None:
        file = data / "run" / "changes"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._fd).st_size < _NUMBER.size:
            os.ftruncate(self._fd, _NUMBER.size)
        self._map = mmap.mmap(self._fd, _NUMBER.size)

    @property
    def value(self) -> int:
        number: int = _NUMBER.unpack_from(self._map, 0)[0]
        return number

    def bump(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            _NUMBER.pack_into(self._map, 0, self.value + 1)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)
