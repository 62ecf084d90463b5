"""The `ma:` entry of a pool: which manager is in charge. It expires unless it is renewed."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time

from tidegate.core.errors import Full, Unavailable
from tidegate.core.records import ManagerEntry
from tidegate.pools.pool_lock import is_manager
from tidegate.ports import Tables

log = logging.getLogger(__name__)


class MutexLost(Unavailable):
    """The entry is gone or another manager's."""


class Mutex:
    def __init__(self, tables: Tables, pool: str, *, seconds: float) -> None:
        self._tables = tables
        self._pool = pool
        self._key = ManagerEntry.PREFIX + pool
        self._seconds = seconds
        self._entry = ManagerEntry(socket.gethostname(), os.getpid(), secrets.token_hex(16), time.time())
        self._text = self._entry.to_json()
        self._renewed_at = 0.0
        self._lapsed = False

    @property
    def token(self) -> str:
        return self._entry.token

    def try_acquire(self) -> bool:
        """One left by a dead manager of this machine is taken over at once, others when they expire."""
        self._renewed_at = time.monotonic()
        if self._tables.put_if_absent(self._key, self._text, expires_in=self._seconds):
            return True
        found = self._tables.get(self._key)
        if found is not None and not self._is_dead(ManagerEntry.from_json(found)):
            return False
        self._renewed_at = time.monotonic()
        return self._tables.compare_and_set(self._key, found, self._text, expires_in=self._seconds)

    def keep(self) -> bool:
        """Looks at the entry, and renews it in time. Raises `MutexLost`. False while the tables cannot be reached,
        which counts as a loss only after the entry must have expired, or are full: then nobody else can take it."""
        try:
            if time.monotonic() - self._renewed_at < self._seconds / 3:
                held = self._tables.get(self._key) == self._text
            else:
                asked_at = time.monotonic()
                held = self._renew()
                self._renewed_at = asked_at if held else self._renewed_at
        except Full as error:
            if not self._lapsed:
                log.warning("pool %s: the manager's entry cannot be renewed: %s", self._pool, error)
            self._lapsed = True
            return False
        except Unavailable as error:
            if time.monotonic() - self._renewed_at >= self._seconds:
                raise MutexLost(f"the tables could not be reached for {self._seconds:.0f} s: {error}") from None
            return False
        if not held:
            raise MutexLost("another manager is in charge, or somebody removed the entry")
        return True

    def _renew(self) -> bool:
        held = self._tables.compare_and_set(self._key, self._text, self._text, expires_in=self._seconds)
        if not held and self._lapsed:  # it has expired meanwhile; whoever comes first has it
            held = self._tables.put_if_absent(self._key, self._text, expires_in=self._seconds)
        self._lapsed = self._lapsed and not held
        return held

    def release(self) -> None:
        self._tables.compare_and_set(self._key, self._text, None)

    def _is_dead(self, entry: ManagerEntry) -> bool:
        return entry.host == socket.gethostname() and not is_manager(entry.pid, self._pool)
