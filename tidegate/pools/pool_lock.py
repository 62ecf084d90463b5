"""The lock on a pool's directory: held by a manager for as long as its backend lives.

The `ma:` entry decides who is in charge; this lock makes sure that the one in charge before has really
ended, so that two backends never run on one directory.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tidegate.core.errors import Unavailable


class PoolLock:
    def __init__(self, data: Path, pool: str) -> None:
        self._file = data / "run" / f"pool-{pool}.lock"
        self._pool = pool
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """True when it is held afterwards. The holder's pid is written into the file."""
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"the lock {self._file} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> int | None:
        """The pid of the manager that holds it, if one of this machine does."""
        try:
            pid = int(self._file.read_text() or 0)
        except (OSError, ValueError):
            return None
        return pid if pid and is_manager(pid, self._pool) else None


def is_manager(pid: int, pool: str) -> bool:
    """Whether the process really is a manager of the pool, and not a later one with the same number."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"tidegate.pools.manager" in command and pool.encode() in command
