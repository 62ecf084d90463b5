"""Reaching a pool's manager from other processes: telling it to stop, or to look at the tables now."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

from tidegate.core.errors import Conflict
from tidegate.core.records import BackendEntry, ManagerEntry
from tidegate.pools.catalogue import ENDPOINT
from tidegate.pools.pool_lock import PoolLock, is_manager
from tidegate.ports import Tables
from tidegate.settings import PoolsSettings

LOOK_NOW = signal.SIGUSR1

_POLL_SECONDS = 0.05
_MARGIN_SECONDS = 5.0


def stop(tables: Tables, data: Path, pool: str, settings: PoolsSettings) -> None:
    """Takes the manager's entry away, which stops it with its backend, and waits until both are gone."""
    manager = _manager(tables, pool)
    tables.delete(ManagerEntry.PREFIX + pool)
    if manager is not None:
        _signal_local(manager, pool, signal.SIGTERM)
    deadline = time.monotonic() + settings.watch_seconds + settings.stop_seconds + _MARGIN_SECONDS
    lock = PoolLock(data, pool)
    while not _gone(tables, lock, pool, manager):
        if time.monotonic() > deadline:
            raise Conflict(f"the backend of pool {pool} has not stopped yet; try again")
        time.sleep(_POLL_SECONDS)


def nudge(tables: Tables, pool: str) -> None:
    """Lets the manager look at the tables at once; one on another machine does so in its own time."""
    text = tables.get(BackendEntry.PREFIX + pool)
    manager = _manager(tables, pool) if text is not None else None
    if manager is not None:
        _signal_local(manager, pool, LOOK_NOW)


def _gone(tables: Tables, lock: PoolLock, pool: str, manager: ManagerEntry | None) -> bool:
    if manager is not None and manager.host != socket.gethostname():
        return tables.get(BackendEntry.PREFIX + pool) is None
    # A manager gives the lock back shortly before it ends.
    if (manager is not None and is_manager(manager.pid, pool)) or not lock.try_acquire():
        return False
    try:
        # What a killed manager could not clear.
        tables.delete(ENDPOINT + pool)
        tables.delete(BackendEntry.PREFIX + pool)
    finally:
        lock.release()
    return True


def _manager(tables: Tables, pool: str) -> ManagerEntry | None:
    text = tables.get(ManagerEntry.PREFIX + pool)
    return ManagerEntry.from_json(text) if text is not None else None


def _signal_local(manager: ManagerEntry, pool: str, number: int) -> None:
    if manager.host != socket.gethostname() or not is_manager(manager.pid, pool):
        return
    try:
        os.kill(manager.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it went away, or is another user's: it finds out by itself
