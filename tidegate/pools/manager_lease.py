"""The `ma:` entry of a pool: which manager is in charge."""

from __future__ import annotations

import os
import secrets
import socket
import time
from functools import partial

from tidegate.core.records import ManagerEntry
from tidegate.lease import Lease
from tidegate.pools.pool_lock import is_manager
from tidegate.ports import Tables


class ManagerLease(Lease):
    """The `token` in its entry tells managers apart; gateways purge a backend only under the token that they knew."""

    __slots__ = ("token",)

    def __init__(self, tables: Tables, pool: str, *, seconds: float) -> None:
        entry = ManagerEntry(socket.gethostname(), os.getpid(), secrets.token_hex(16), time.time())
        is_dead = partial(_is_dead, pool)
        super().__init__(tables, ManagerEntry.PREFIX + pool, entry.to_json(), seconds=seconds, is_dead=is_dead)
        self.token = entry.token


def _is_dead(pool: str, holder: str) -> bool:
    entry = ManagerEntry.from_json(holder)
    return entry.host == socket.gethostname() and not is_manager(entry.pid, pool)
