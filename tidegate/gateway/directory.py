"""What the gateway knows of keys, buckets and pools: copies of table entries with a short life.

Look-ups never wait. What is not at hand raises `Missing`; the caller loads it and asks again, so that
the decisions built on look-ups stay plain functions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.pool_states import disabling_reason
from tidegate.core.records import BackendEntry, Bucket, Key, Pool, PoolStatus, User
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.vault import Vault
from tidegate.ports import Tables

_ABSENCE_SECONDS = 0.05  # just long enough to be asked again by who loaded it
_MOST_ENTRIES = 200_000

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class OpenKey:
    """A key with its secret."""

    access_key: str
    pool: str
    secret: str
    policy: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as a request meets it. `address` is None while it sleeps."""

    pool: Pool
    owner_permitted: bool
    status: PoolStatus | None
    address: str | None
    manager_token: str
    admin_key: str
    admin_secret: str

    def disabled(self, now: float) -> str | None:
        """Why the pool may not be used, if so."""
        return disabling_reason(self.pool, owner_permitted=self.owner_permitted, now=now)


class Missing(Exception):
    """The entry is not at hand, or too old: load it with `load` and ask again."""

    def __init__(self, loader: Callable[[str], Any], name: str) -> None:
        self.loader = loader
        self.name = name


class Directory:
    """For one thread; `load` reads the tables in another."""

    def __init__(self, tables: Tables, vault: Vault, changes: ChangeCounter, *, life: float) -> None:
        self._tables = tables
        self._vault = vault
        self._changes = changes
        self._life = life
        self._entries: dict[tuple[Callable[[str], Any], str], tuple[float, int, Any]] = {}
        self._readings: dict[tuple[Callable[[str], Any], str], asyncio.Future[None]] = {}
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="directory")

    def key(self, access_key: str) -> OpenKey | None:
        return self._at_hand(self._load_key, access_key)

    def bucket(self, name: str) -> Bucket | None:
        return self._at_hand(self._load_bucket, name)

    def pool(self, name: str) -> PoolView | None:
        return self._at_hand(self._load_pool, name)

    def direct_pool(self, hostname: str) -> str | None:
        """The pool behind a direct host name."""
        return self._at_hand(self._load_direct, hostname)

    def rules(self, bucket_uid: str) -> RuleSet | None:
        return self._at_hand(self._load_rules, bucket_uid)

    def forget_pool(self, name: str) -> None:
        self._entries.pop((self._load_pool, name), None)

    async def load(self, missing: Missing) -> None:
        """Reads the entry from the tables; who asks for the same one meanwhile waits for the same reading."""
        entry = (missing.loader, missing.name)
        reading = self._readings.get(entry)
        if reading is None:
            reading = self._readings[entry] = asyncio.ensure_future(self._read(missing))
            reading.add_done_callback(lambda _: self._readings.pop(entry, None))
        await asyncio.shield(reading)

    async def _read(self, missing: Missing) -> None:
        epoch = self._changes.value
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._threads, missing.loader, missing.name)
        if len(self._entries) >= _MOST_ENTRIES:
            self._entries.clear()
        # At least long enough for the caller's next look, whatever the setting.
        life = max(self._life, _ABSENCE_SECONDS) if value is not None else _ABSENCE_SECONDS
        entry = (missing.loader, missing.name)
        self._entries[entry] = (time.monotonic() + life, epoch, value)
        if value is None:  # whoever asks for names that do not exist must not fill the memory with them
            loop.call_later(2 * _ABSENCE_SECONDS, self._entries.pop, entry, None)

    def close(self) -> None:
        self._threads.shutdown()

    def _at_hand(self, loader: Callable[[str], Record | None], name: str) -> Record | None:
        entry = self._entries.get((loader, name))
        if entry is None or entry[0] < time.monotonic() or entry[1] != self._changes.value:
            raise Missing(loader, name)
        value: Record | None = entry[2]
        return value

    def _load_key(self, access_key: str) -> OpenKey | None:
        text = self._tables.get(Key.PREFIX + access_key)
        if text is None:
            return None
        key = Key.from_json(text)
        return OpenKey(key.access_key, key.pool, self._vault.unseal(key.secret), key.policy, key.expires_at)

    def _load_bucket(self, name: str) -> Bucket | None:
        text = self._tables.get(Bucket.PREFIX + name)
        return Bucket.from_json(text) if text is not None else None

    def _load_rules(self, bucket_uid: str) -> RuleSet | None:
        text = self._tables.get(LIFECYCLE + bucket_uid)
        return RuleSet.from_json(text) if text is not None else None

    def _load_direct(self, hostname: str) -> str | None:
        return self._tables.get("dn:" + hostname)

    def _load_pool(self, name: str) -> PoolView | None:
        text = self._tables.get(Pool.PREFIX + name)
        if text is None:
            return None
        pool = Pool.from_json(text)
        user = self._tables.get(User.PREFIX + pool.owner)
        status = self._tables.get(PoolStatus.PREFIX + name)
        address = self._tables.get("ep:" + name)
        entry = self._tables.get(BackendEntry.PREFIX + name) if address else None
        backend = BackendEntry.from_json(entry) if entry else None
        return PoolView(
            pool=pool,
            owner_permitted=User.from_json(user).permitted if user else True,
            status=PoolStatus.from_json(status) if status else None,
            address=address if backend else None,
            manager_token=backend.manager_token if backend else "",
            admin_key=backend.admin_key if backend else "",
            admin_secret=self._vault.unseal(backend.admin_secret) if backend else "",
        )
