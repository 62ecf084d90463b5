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
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from tidegate.core.backend_traits import BackendTraits, traits_of
from tidegate.core.cors import CORS, CorsRules
from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.locations import Location
from tidegate.core.placements import HAS_PLACEMENTS
from tidegate.core.pool_states import disabling_reason
from tidegate.core.records import (
    BackendEntry,
    Bucket,
    BucketPolicy,
    BucketState,
    Key,
    KeyPolicy,
    Pool,
    PoolStatus,
    User,
)
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.core.sigv4 import Signer
from tidegate.pools.catalogue import DIRECT_HOSTNAME, ENDPOINT
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.vault import Vault
from tidegate.ports import Tables

_ABSENCE_SECONDS = 0.05  # just long enough to be asked again by who loaded it
_MOST_ENTRIES = 200_000
_REGION = "us-east-1"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class OpenKey:
    """A key with its secret."""

    access_key: str
    pool: str
    secret: str
    policy: KeyPolicy
    expires_at: float | None
    is_internal: bool = False


class BucketView(NamedTuple):
    """A bucket with its lifecycle rules, its CORS rules, its versioning as far as it was noted down, whether any object
    in it was ever moved, and its replication rules."""

    bucket: Bucket
    policy: BucketPolicy
    rules: RuleSet | None
    cors: CorsRules | None
    versioning: Versioning | None
    has_placements: bool = False
    replication: ReplicationRules | None = None


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as a request meets it. `address` is None while it sleeps. `signer` has the credential of its backend,
    which no client has."""

    pool: Pool
    traits: BackendTraits
    owner_permitted: bool
    status: PoolStatus | None
    address: str | None
    manager_token: str
    signer: Signer

    def disabled(self, now: float) -> str | None:
        """Why the pool may not be used, if so."""
        return disabling_reason(self.pool, owner_permitted=self.owner_permitted, now=now)


@dataclass(frozen=True, slots=True)
class LocationView:
    """A location as requests to it need it."""

    location: Location
    signer: Signer

    @property
    def address(self) -> str:
        return self.location.host


class Missing(Exception):
    """The entry is not at hand, or too old: load it with `load` and ask again."""

    def __init__(self, shelf: _Shelf[Any], name: str) -> None:
        self.shelf = shelf
        self.name = name


class _Entry(NamedTuple, Generic[Record]):
    refresh_at: float
    stale_at: float
    epoch: int
    value: Record | None


class _Shelf(Generic[Record]):
    """The entries of one kind."""

    __slots__ = ("entries", "read", "readings")

    def __init__(self, read: Callable[[str], Record | None]) -> None:
        self.read = read
        self.entries: dict[str, _Entry[Record]] = {}
        self.readings: dict[str, asyncio.Future[None]] = {}


class Directory:
    """For one thread; `load` reads the tables in another."""

    def __init__(
        self,
        tables: Tables,
        vault: Vault,
        changes: ChangeCounter,
        *,
        life: float,
        find_location: Callable[[str], tuple[Location, str]] | None = None,
    ) -> None:
        """`find_location` gives a location and its secret, and raises `NotFound`."""
        self._find_location = find_location
        self._tables = tables
        self._vault = vault
        self._changes = changes
        self._life = max(life, _ABSENCE_SECONDS)  # long enough for who loaded an entry, whatever the setting
        self._keys = _Shelf(self._load_key)
        self._buckets = _Shelf(self._load_bucket)
        self._pools = _Shelf(self._load_pool)
        self._hostnames = _Shelf(self._load_direct)
        self._locations = _Shelf(self._load_location)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="directory")

    def key(self, access_key: str) -> OpenKey | None:
        return self._at_hand(self._keys, access_key)

    def bucket(self, name: str) -> BucketView | None:
        return self._at_hand(self._buckets, name)

    def pool(self, name: str) -> PoolView | None:
        return self._at_hand(self._pools, name)

    def direct_pool(self, hostname: str) -> str | None:
        """The pool behind a direct host name."""
        return self._at_hand(self._hostnames, hostname)

    async def current_bucket(self, name: str) -> BucketView | None:
        """The bucket, loaded first if it is not at hand."""
        return await self._loaded(lambda: self.bucket(name))

    async def location(self, name: str) -> LocationView | None:
        return await self._loaded(lambda: self._at_hand(self._locations, name))

    async def _loaded(self, look_up: Callable[[], Record | None]) -> Record | None:
        while True:
            try:
                return look_up()
            except Missing as missing:
                await self.load(missing)  # and once more if something changed meanwhile

    def forget_pool(self, name: str) -> None:
        self._pools.entries.pop(name, None)

    async def load(self, missing: Missing) -> None:
        """Reads the entry from the tables; who asks for the same one meanwhile waits for the same reading."""
        await asyncio.shield(self._reading(missing.shelf, missing.name))

    def _reading(self, shelf: _Shelf[Any], name: str) -> asyncio.Future[None]:
        reading = shelf.readings.get(name)
        if reading is None or reading.done():  # waiting for what is done already would let nobody else run
            reading = shelf.readings[name] = asyncio.ensure_future(self._read(shelf, name))
            reading.add_done_callback(partial(_forget_reading, shelf, name))
        return reading

    async def _read(self, shelf: _Shelf[Any], name: str) -> None:
        epoch = self._changes.value
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._threads, shelf.read, name)
        if len(shelf.entries) >= _MOST_ENTRIES:
            shelf.entries.clear()
        life = self._life if value is not None else _ABSENCE_SECONDS
        now = time.monotonic()
        shelf.entries[name] = _Entry(now + life / 2, now + life, epoch, value)
        if value is None:  # whoever asks for names that do not exist must not fill the memory with them
            loop.call_later(2 * _ABSENCE_SECONDS, shelf.entries.pop, name, None)

    def close(self) -> None:
        self._threads.shutdown()

    def _at_hand(self, shelf: _Shelf[Record], name: str) -> Record | None:
        entry = shelf.entries.get(name)
        if entry is None or entry.epoch != self._changes.value:
            raise Missing(shelf, name)
        now = time.monotonic()
        if now > entry.refresh_at:
            if now > entry.stale_at:
                raise Missing(shelf, name)
            if entry.value is not None and name not in shelf.readings:
                # What is in use is read again before it gets stale, so that no request waits for it.
                self._reading(shelf, name).add_done_callback(_noticed)
        return entry.value

    def _load_key(self, access_key: str) -> OpenKey | None:
        text = self._tables.get(Key.PREFIX + access_key)
        if text is None:
            return None
        key = Key.from_json(text)
        secret = self._vault.unseal(key.secret)
        return OpenKey(key.access_key, key.pool, secret, KeyPolicy(key.policy), key.expires_at, key.internal)

    def _load_bucket(self, name: str) -> BucketView | None:
        text = self._tables.get(Bucket.PREFIX + name)
        if text is None:
            return None
        bucket = Bucket.from_json(text)
        rules, cors = self._tables.get(LIFECYCLE + bucket.uid), self._tables.get(CORS + bucket.uid)
        state = self._tables.get(BucketState.PREFIX + bucket.uid)
        replication = self._tables.get(REPLICATION + bucket.uid)
        return BucketView(
            bucket,
            BucketPolicy(bucket.policy),
            RuleSet.from_json(rules) if rules is not None else None,
            CorsRules.from_json(cors) if cors is not None else None,
            Versioning(BucketState.from_json(state).versioning) if state is not None else None,
            self._tables.get(HAS_PLACEMENTS + bucket.uid) is not None,
            ReplicationRules.from_json(replication) if replication is not None else None,
        )

    def _load_location(self, name: str) -> LocationView | None:
        if self._find_location is None:
            return None
        try:
            location, secret = self._find_location(name)
        except NotFound:
            return None
        return LocationView(location, Signer(location.access_key, secret, location.region))

    def _load_direct(self, hostname: str) -> str | None:
        return self._tables.get(DIRECT_HOSTNAME + hostname)

    def _load_pool(self, name: str) -> PoolView | None:
        text = self._tables.get(Pool.PREFIX + name)
        if text is None:
            return None
        pool = Pool.from_json(text)
        user = self._tables.get(User.PREFIX + pool.owner)
        status = self._tables.get(PoolStatus.PREFIX + name)
        address = self._tables.get(ENDPOINT + name)
        entry = self._tables.get(BackendEntry.PREFIX + name) if address else None
        backend = BackendEntry.from_json(entry) if entry else None
        return PoolView(
            pool=pool,
            traits=traits_of(pool.backend),
            owner_permitted=User.from_json(user).permitted if user else True,
            status=PoolStatus.from_json(status) if status else None,
            address=address if backend else None,
            manager_token=backend.manager_token if backend else "",
            signer=Signer(
                backend.admin_key if backend else "",
                self._vault.unseal(backend.admin_secret) if backend else "",
                _REGION,
            ),
        )


def _forget_reading(shelf: _Shelf[Any], name: str, reading: asyncio.Future[None]) -> None:
    if shelf.readings.get(name) is reading:
        del shelf.readings[name]


def _noticed(reading: asyncio.Future[None]) -> None:
    """A reading that nobody waits for: when it fails, the entry gets stale and the next request fails, loudly."""
    if not reading.cancelled():
        reading.exception()
