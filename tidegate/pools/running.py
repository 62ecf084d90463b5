"""A backend in service: its entries in the tables, the buckets it must have, and its stop."""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import replace

from tidegate.core.errors import Unavailable
from tidegate.core.records import BackendEntry, Pool
from tidegate.pools import catalogue
from tidegate.pools.backends.base import Backend
from tidegate.pools.catalogue import ENDPOINT, LAST_ACCESS
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.manager_lease import ManagerLease
from tidegate.pools.pool_lock import PoolLock
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.settings import Settings

log = logging.getLogger(__name__)


class Running:
    def __init__(
        self,
        *,
        tables: Tables,
        vault: Vault,
        settings: Settings,
        changes: ChangeCounter,
        pool: Pool,
        lease: ManagerLease,
        lock: PoolLock,
        backend: Backend,
        admin: tuple[str, str],
    ) -> None:
        self.tables = tables
        self.settings = settings
        self.pool = pool
        self.lease = lease
        self.backend = backend
        self._changes = changes
        self._lock = lock
        self._entry = BackendEntry(
            endpoint=backend.endpoint,
            pid=backend.pid,
            admin_key=admin[0],
            admin_secret=vault.seal(admin[1]),
            host=socket.gethostname(),
            manager_pid=os.getpid(),
            manager_token=lease.token,
            generation=-1,
            started_at=time.time(),
        )

    @property
    def name(self) -> str:
        return self.pool.name

    def make_buckets(self) -> None:
        """Lets the backend have every bucket of the pool, and notes in the tables of which generation they are."""
        generation = catalogue.generation_of(self.tables, self.name)  # first: a bucket made meanwhile is of a later one
        self.backend.make_buckets([bucket.name for bucket in catalogue.buckets_of(self.tables, self.name)])
        before, self._entry = self._entry, replace(self._entry, generation=generation)
        if before.generation >= 0:
            self.tables.compare_and_set(BackendEntry.PREFIX + self.name, before.to_json(), self._entry.to_json())

    def lacks_buckets(self) -> bool:
        """Whether an administrator made a bucket since the last time."""
        return catalogue.generation_of(self.tables, self.name) != self._entry.generation

    def publish(self) -> None:
        """Publishes the backend: the access time first, the endpoint last, since requests come from then on."""
        self.tables.put(LAST_ACCESS + self.name, repr(time.time()))
        self.tables.put(BackendEntry.PREFIX + self.name, self._entry.to_json())
        self.admit()

    def admit(self) -> None:
        self.tables.put(ENDPOINT + self.name, self.backend.endpoint)
        self._changes.bump()

    def is_published(self) -> bool:
        mine = self.tables.get(BackendEntry.PREFIX + self.name) == self._entry.to_json()
        return mine and self.tables.get(ENDPOINT + self.name) == self.backend.endpoint

    def withdraw(self) -> None:
        """Removes the endpoint: new requests do not find the backend, and running ones are still served."""
        self.tables.compare_and_set(ENDPOINT + self.name, self.backend.endpoint, None)
        self._changes.bump()

    def stop(self, *, in_charge: bool = True) -> None:
        """Orderly: out of the tables, then the process, then the right to run one. When somebody else may be in
        charge already, the process first."""
        if in_charge:
            self._clear_entries()
        self.backend.stop(self.settings.pools.stop_seconds)
        self._lock.release()
        if not in_charge:
            self._clear_entries()
        try:
            self.lease.release()
        except Unavailable as error:
            log.warning("pool %s: the manager's entry has to expire by itself: %s", self.name, error)

    def _clear_entries(self) -> None:
        """Removes this backend's entries and leaves those of a successor."""
        try:
            self.withdraw()
            self.tables.compare_and_set(BackendEntry.PREFIX + self.name, self._entry.to_json(), None)
        except Unavailable as error:
            log.warning("pool %s: its entries cannot be removed: %s", self.name, error)
