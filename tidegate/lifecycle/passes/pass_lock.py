"""The pass lock: held by whoever starts or runs a pass. It expires unless it is renewed.

The lock says which process holds it. A process on the same machine that finds the holder dead takes the lock over at
once, so that a killed pass does not hold up the next one until the lock expires.
"""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.core.errors import Unavailable
from tidegate.ports import Tables

LOCK = "lifecycle/pass"


class PassLock:
    def __init__(self, tables: Tables, *, seconds: float) -> None:
        self._tables = tables
        self._seconds = seconds
        self._token = f"{_machine()}/{os.getpid()}/{_started(os.getpid())}/{secrets.token_hex(8)}"

    def try_acquire(self) -> bool:
        if self._tables.put_if_absent(LOCK, self._token, expires_in=self._seconds):
            return True
        holder = self._tables.get(LOCK)
        if holder is not None and not _is_dead(holder):
            return False
        return self._tables.compare_and_set(LOCK, holder, self._token, expires_in=self._seconds)

    def renew(self) -> bool:
        """False when it was lost."""
        return self._tables.compare_and_set(LOCK, self._token, self._token, expires_in=self._seconds)

    def release(self) -> None:
        self._tables.compare_and_set(LOCK, self._token, None)


class KeptLock:
    """Renews a lock that was acquired, in a thread, until the block ends; then it is released."""

    def __init__(self, lock: PassLock, *, seconds: float) -> None:
        self._lock = lock
        self._pause = seconds / 4
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="pass-lock", daemon=True)
        self.lost = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._lock.release()

    def _keep(self) -> None:
        while not self._ended.wait(self._pause):
            # Tables that do not answer for a while leave the lock to its expiry; the next try tells.
            with suppress(Unavailable):
                if not self._lock.renew():
                    self.lost = True
                    return


def _machine() -> str:
    """Tells apart what has its own process ids: machines, their boots, containers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"


def _started(pid: int) -> str:
    """When the process was started, in the kernel's ticks: process ids come again. Empty where there is none."""
    try:
        # The name in parentheses may hold anything; the start is the 20th field after it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_dead(holder: str) -> bool:
    """Only what is known for certain: a process of another machine counts as alive."""
    machine, _, rest = holder.partition("/")
    pid, _, rest = rest.partition("/")
    started, _, _ = rest.partition("/")
    return machine == _machine() and pid.isdigit() and _started(int(pid)) != started
