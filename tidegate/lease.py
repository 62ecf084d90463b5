"""A lease: the right to do something alone, over all machines, as an entry in the tables that expires unless renewed.

The entry names its holder, so that nobody renews or releases what has become another's. A holder that is certainly
dead is followed at once; one that cannot be looked at counts as alive until its entry expires.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.core.errors import Conflict, Full, Unavailable
from tidegate.ports import Tables

_POLL_SECONDS = 0.02

logger = logging.getLogger(__name__)


def this_process() -> str:
    """A new holder's text: machine, process, the process's start, and what tells apart the leases of one process."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}/{secrets.token_hex(8)}"


def process_is_dead(holder: str) -> bool:
    """Only what is known for certain: a process of another machine counts as alive."""
    machine, _, rest = holder.partition("/")
    pid, _, rest = rest.partition("/")
    started, _, _ = rest.partition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    present = _started(int(pid))
    return present != started if present else not _exists(int(pid))


@cache
def _machine() -> str:
    """Tells apart what has its own process ids: machines, their boots, containers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"


def _started(pid: int) -> str:
    """When the process was started, in the kernel's ticks: process ids come again. Empty where that cannot be seen."""
    try:
        # The name in parentheses may hold anything; the start is the 20th field after it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _exists(pid: int) -> bool:
    """Also of a process that is hidden from us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class LeaseLost(Unavailable):
    """The entry is gone or another's."""


class Lease:
    """`holder` is the text of the entry: by default, this process; `is_dead` says of another holder's text whether it
    can be told for certain that nobody is behind it. For one thread."""

    __slots__ = ("_holder", "_is_dead", "_key", "_lapsed", "_renewed_at", "_seconds", "_tables")

    def __init__(
        self,
        tables: Tables,
        key: str,
        holder: str = "",
        *,
        seconds: float,
        is_dead: Callable[[str], bool] = process_is_dead,
    ) -> None:
        self._tables = tables
        self._key = key
        self._holder = holder or this_process()
        self._seconds = seconds
        self._is_dead = is_dead
        self._renewed_at = 0.0
        self._lapsed = False

    def try_acquire(self) -> bool:
        """An entry that names us was set for us, though the answer was lost."""
        self._renewed_at = time.monotonic()
        if self._tables.put_if_absent(self._key, self._holder, expires_in=self._seconds):
            return True
        found = self._tables.get(self._key)
        if found not in (None, self._holder) and not self._is_dead(str(found)):
            return False
        self._renewed_at = time.monotonic()
        return self._tables.compare_and_set(self._key, found, self._holder, expires_in=self._seconds)

    def renew(self) -> bool:
        """False when it was lost."""
        return self._tables.compare_and_set(self._key, self._holder, self._holder, expires_in=self._seconds)

    def release(self) -> None:
        self._tables.compare_and_set(self._key, self._holder, None)

    def keep(self) -> bool:
        """Looks at the entry, and renews it in time. Raises `LeaseLost`. False while the tables cannot be reached,
        which counts as a loss only after the entry must have expired, or are full: then nobody else can take it."""
        try:
            if time.monotonic() - self._renewed_at < self._seconds / 3:
                held = self._tables.get(self._key) == self._holder
            else:
                asked_at = time.monotonic()
                held = self._renew_or_return()
                self._renewed_at = asked_at if held else self._renewed_at
        except Full as error:
            if not self._lapsed:
                logger.warning("the entry %s cannot be renewed: %s", self._key, error)
            self._lapsed = True
            return False
        except Unavailable as error:
            if time.monotonic() - self._renewed_at >= self._seconds:
                raise LeaseLost(f"the tables could not be reached for {self._seconds:.0f} s: {error}") from None
            return False
        if not held:
            raise LeaseLost(f"the entry {self._key} is another's, or somebody removed it")
        return True

    def _renew_or_return(self) -> bool:
        """An entry that expired while the tables were full is had by whoever comes first."""
        held = self.renew()
        if not held and self._lapsed:
            held = self._tables.put_if_absent(self._key, self._holder, expires_in=self._seconds)
        self._lapsed = self._lapsed and not held
        return held

    @contextmanager
    def held(self, *, patience_seconds: float, refusal: str) -> Iterator[None]:
        """For a block that is shorter than the lease. `Conflict` with the `refusal` if others have it for too long."""
        deadline = time.monotonic() + patience_seconds
        while not self.try_acquire():
            if time.monotonic() > deadline:
                raise Conflict(refusal)
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            self.release()


class KeptLease:
    """Renews a lease that was acquired, in a thread, until the block ends; then it is released."""

    def __init__(self, lease: Lease, *, seconds: float) -> None:
        self._lease = lease
        self._pause = seconds / 4
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self.lost = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._lease.release()

    def _keep(self) -> None:
        while not self._ended.wait(self._pause):
            # Tables that do not answer for a while leave the lease to its expiry; the next try tells.
            with suppress(Unavailable):
                if not self._lease.renew():
                    self.lost = True
                    return
