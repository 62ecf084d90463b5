"""Pools, keys, buckets and users: every operation on them, for gateway, API and command line alike.

Input is checked before anything changes. What a crash leaves half done is finished or undone by doing the
same again: a pool counts only once its `po:` entry stands, and that is written last and removed last.
"""

from __future__ import annotations

import secrets
import string
import time
import uuid
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tidegate.core import names, pool_states
from tidegate.core.backend_traits import traits_of
from tidegate.core.cors import CORS
from tidegate.core.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.placements import HAS_PLACEMENTS, PLACEMENTS
from tidegate.core.records import BackendEntry, Bucket, Key, KeyPolicy, ManagerEntry, Pool, PoolStatus, User
from tidegate.core.replication.rules import REPLICATION
from tidegate.pools import catalogue, starter_client, stopping
from tidegate.pools.backends.known import check_backend
from tidegate.pools.catalogue import ENDPOINT, GENERATION, LAST_ACCESS
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.directories import choose_directory, provide_directory
from tidegate.pools.owners import Account, choose_account, find_account, group_names
from tidegate.pools.places import Places
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.service_account import find_service_account, started_by_root
from tidegate.settings import Settings

NO_STATE = "NONE"

_ACCESS_KEY_CHARACTERS = string.ascii_uppercase + string.digits
_SECRET_CHARACTERS = string.ascii_letters + string.digits
_ACCESS_KEY_LENGTH = 20
_SECRET_LENGTH = 40
_APPLIED_POLL_SECONDS = 0.05
# Entries of the tables that each bucket has under its uid.
_OF_BUCKETS = (LIFECYCLE, CORS, REPLICATION, HAS_PLACEMENTS)


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED = _Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool's state and what runs for it now. `state` is NONE before the first start."""

    state: str
    reason: str
    endpoint: str
    manager_pid: int | None
    backend_pid: int | None
    last_access_at: float | None


class Registry:
    def __init__(self, tables: Tables, vault: Vault, data: Path, settings: Settings) -> None:
        self.tables = tables
        self._vault = vault
        self._data = data
        self._settings = settings
        self._changes = ChangeCounter(data)
        self._places = Places(tables)

    # --- pools -----------------------------------------------------------------------------------

    def create_pool(
        self,
        name: str,
        *,
        now: float,
        owner: str = "",
        group: str = "",
        directory: str = "",
        backend: str = "",
        direct_hostname: str = "",
        expires_at: float | None = None,
    ) -> Pool:
        names.check_pool_name(name)
        service_account = self._settings.service.account
        any_owner = started_by_root() or starter_client.listens(self._data)
        account = choose_account(owner, group, service_account=service_account, any_owner=any_owner)
        pool = Pool(
            name=name,
            owner=account.user,
            group=account.group,
            directory=choose_directory(directory, name, self._data),
            backend=check_backend(backend or self._settings.pools.backend),
            created_at=now,
            expires_at=_check_expiry(expires_at, now),
            direct_hostname=names.check_host_label(direct_hostname) if direct_hostname else "",
        )
        with self._places.held():
            self._add_pool(pool, account, now)
        self._changes.bump()
        return pool

    def _add_pool(self, pool: Pool, account: Account, now: float) -> None:
        if self.tables.get(Pool.PREFIX + pool.name) is not None:
            raise AlreadyExists(f"there is a pool {pool.name} already")
        try:
            self._places.claim(pool)
            self._make_directory(pool, account)
            self._note_owner(account, now)
            if not self.tables.put_if_absent(Pool.PREFIX + pool.name, pool.to_json()):
                raise AlreadyExists(f"there is a pool {pool.name} already")
            self._places.confirm(pool)
        except BaseException:
            self.tables.compare_and_set(Pool.PREFIX + pool.name, pool.to_json(), None)
            other = self.tables.get(Pool.PREFIX + pool.name)
            self._places.release(pool, keeper=Pool.from_json(other) if other is not None else None)
            raise

    def _make_directory(self, pool: Pool, account: Account) -> None:
        if account.is_current or started_by_root():
            service = find_service_account(self._settings.service.account) if started_by_root() else account.identity
            provide_directory(self._data, pool.directory, account, service)
        else:
            starter_client.ask_for_directory(self._data, pool.name, pool.directory, account.user, account.group)

    def pool(self, name: str) -> Pool:
        return Pool.from_json(self._text(Pool.PREFIX + names.check_pool_name(name), f"pool {name}"))

    def pools(self) -> list[Pool]:
        return catalogue.every_pool(self.tables)

    def update_pool(
        self,
        name: str,
        *,
        online: bool | None = None,
        expires_at: float | _Unchanged | None = UNCHANGED,
    ) -> Pool:
        while True:
            before = self._text(Pool.PREFIX + names.check_pool_name(name), f"pool {name}")
            after = Pool.from_json(before)
            if online is not None:
                after = replace(after, online=online)
            if not isinstance(expires_at, _Unchanged):
                after = replace(after, expires_at=_check_number(expires_at))
            if self.tables.compare_and_set(Pool.PREFIX + name, before, after.to_json()):
                self._changed(name)
                return after

    def delete_pool(self, name: str) -> None:
        """Stops the backend and forgets the pool with its keys and buckets. The contents stay in its directory. Raises
        `Conflict` where objects of it were moved."""
        pool = self.pool(name)
        self._refuse_if_moved(name)
        self.update_pool(name, online=False)  # nothing wakes it meanwhile
        self.stop_pool(name)
        try:
            self._refuse_if_moved(name)  # what was moved since
        except Conflict:
            self.update_pool(name, online=pool.online)
            raise
        self._forget_contents(name)
        for prefix in (PoolStatus.PREFIX, LAST_ACCESS, GENERATION):
            self.tables.delete(prefix + name)
        with self._places.held():
            self._places.release(pool)
            self.tables.delete(Pool.PREFIX + name)
        self._forget_contents(name)  # what came in between: nothing more can come
        self.tables.delete(GENERATION + name)
        self._changes.bump()

    def stop_pool(self, name: str) -> None:
        """Stops the backend, if one runs, and returns when it is gone; the next request starts it again."""
        self.pool(name)
        stopping.stop(self.tables, self._data, name, self._settings.pools)
        self._changes.bump()

    def reset_pool(self, name: str, *, now: float) -> None:
        """Lets an INOPERABLE pool be tried again."""
        self.pool(name)
        self.tables.put(PoolStatus.PREFIX + name, pool_states.reset(now=now).to_json())
        self._changes.bump()

    def status(self, name: str, now: float) -> PoolView:
        pool = self.pool(name)
        text = self.tables.get(PoolStatus.PREFIX + name)
        recorded = PoolStatus.from_json(text) if text else None
        check = pool_states.judge(pool, recorded, owner_permitted=self._permitted(pool.owner), now=now)
        current = check.status or recorded
        manager = self.tables.get(ManagerEntry.PREFIX + name)
        backend = self.tables.get(BackendEntry.PREFIX + name)
        last_access = self.tables.get(LAST_ACCESS + name)
        return PoolView(
            state=NO_STATE if recorded is None and check.may_run else str(current.state if current else NO_STATE),
            reason=current.reason if current else "",
            endpoint=self.tables.get(ENDPOINT + name) or "",
            manager_pid=ManagerEntry.from_json(manager).pid if manager else None,
            backend_pid=BackendEntry.from_json(backend).pid if backend else None,
            last_access_at=float(last_access) if last_access else None,
        )

    # --- keys ------------------------------------------------------------------------------------

    def create_key(
        self, pool: str, *, now: float, policy: str = "readwrite", expires_at: float | None = None
    ) -> tuple[Key, str]:
        """The key and its secret, which is shown only here."""
        home = self.pool(pool)
        names.check_key_policy(policy)
        _check_expiry(expires_at, now)
        return self._new_key(home, policy, now=now, expires_at=expires_at)

    def _new_key(
        self, home: Pool, policy: str, *, now: float, expires_at: float | None = None, internal: bool = False
    ) -> tuple[Key, str]:
        secret = _random(_SECRET_CHARACTERS, _SECRET_LENGTH)
        while True:
            key = Key(
                access_key=_random(_ACCESS_KEY_CHARACTERS, _ACCESS_KEY_LENGTH),
                pool=home.name,
                secret=self._vault.seal(secret),
                policy=policy,
                created_at=now,
                expires_at=expires_at,
                internal=internal,
            )
            if self.tables.put_if_absent(Key.PREFIX + key.access_key, key.to_json()):
                break
        self._still_there(home, Key.PREFIX + key.access_key, key.to_json())
        self._changes.bump()
        return key, secret

    def key(self, access_key: str) -> Key:
        return Key.from_json(self._text(Key.PREFIX + names.check_access_key(access_key), f"access key {access_key}"))

    def keys(self, pool: str) -> list[Key]:
        return [key for key in catalogue.keys_of(self.tables, self.pool(pool).name) if not key.internal]

    def service_key(self, pool: str, *, now: float) -> tuple[str, str]:
        """The access key and secret with which Tidegate's own workers act in the pool; made at first use."""
        home = self.pool(pool)
        for key in catalogue.keys_of(self.tables, pool):
            if key.internal:
                return key.access_key, self._vault.unseal(key.secret)
        key, secret = self._new_key(home, KeyPolicy.READWRITE, now=now, internal=True)
        return key.access_key, secret

    def delete_key(self, access_key: str) -> None:
        self.key(access_key)
        self.tables.delete(Key.PREFIX + access_key)
        self._changes.bump()

    # --- buckets ---------------------------------------------------------------------------------

    def create_bucket(
        self, name: str, pool: str, *, now: float, policy: str = "none", by_client: bool = False
    ) -> Bucket:
        """`by_client` means that the client's request creates the bucket at the backend, perhaps with locks."""
        names.check_bucket_name(name)
        names.check_bucket_policy(policy)
        home = self.pool(pool)
        problem = traits_of(home.backend).bucket_problem(name)
        if problem:
            raise InvalidInput(f"{name!r} cannot be a bucket's name here: {problem}")
        bucket = Bucket(name=name, pool=pool, uid=uuid.uuid4().hex, policy=policy, created_at=now)
        if not self.tables.put_if_absent(Bucket.PREFIX + name, bucket.to_json()):
            raise AlreadyExists(f"there is a bucket {name} already; bucket names are shared by all pools")
        self._still_there(home, Bucket.PREFIX + name, bucket.to_json())
        if by_client:
            self._changes.bump()
        else:
            catalogue.next_generation(self.tables, pool)
            self._changed(pool)
        return bucket

    def bucket(self, name: str) -> Bucket:
        return Bucket.from_json(self._text(Bucket.PREFIX + names.check_bucket_name(name), f"bucket {name}"))

    def buckets(self, pool: str) -> list[Bucket]:
        return catalogue.buckets_of(self.tables, self.pool(pool).name)

    def set_bucket_policy(self, name: str, policy: str, *, uid: str = "") -> Bucket:
        """With `uid` only that bucket is meant: a later one of the same name is `NotFound`, too."""
        names.check_bucket_policy(policy)
        while True:
            before = self._text(Bucket.PREFIX + names.check_bucket_name(name), f"bucket {name}")
            bucket = Bucket.from_json(before)
            if uid and bucket.uid != uid:
                raise NotFound(f"the bucket {name} is another one now")
            after = replace(bucket, policy=policy)
            if self.tables.compare_and_set(Bucket.PREFIX + name, before, after.to_json()):
                self._changes.bump()
                return after

    def has_bucket(self, name: str, uid: str) -> bool:
        """Whether the name still belongs to that bucket, and not to none or to a later one."""
        text = self.tables.get(Bucket.PREFIX + name)
        return text is not None and Bucket.from_json(text).uid == uid

    def has_moved(self, bucket: Bucket) -> bool:
        """Whether the bucket has records of objects that were moved. They are found by its uid alone: without them the
        objects could not be read, and nobody would delete their data."""
        return bool(self.tables.scan(f"{PLACEMENTS}{bucket.uid}/", limit=1))

    def delete_bucket(self, name: str, *, uid: str = "") -> None:
        """Makes it unreachable. What is in it stays, and is there again when the pool gets a bucket of that name.

        With `uid` only that bucket is meant: if another one has taken the name, or none has it, nothing happens.
        Raises `Conflict` where objects of it were moved.
        """
        text = self._text(Bucket.PREFIX + names.check_bucket_name(name), f"bucket {name}") if not uid else None
        wanted = Bucket.from_json(text).uid if text is not None else uid
        while (stored := self.tables.get(Bucket.PREFIX + name)) is not None:
            bucket = Bucket.from_json(stored)
            if bucket.uid != wanted:
                return
            if self.has_moved(bucket):
                raise _moved(bucket)
            if self.tables.compare_and_set(Bucket.PREFIX + name, stored, None):
                for prefix in _OF_BUCKETS:
                    self.tables.delete(prefix + wanted)
                self._changes.bump()
                return

    # --- users -----------------------------------------------------------------------------------

    def users(self) -> list[User]:
        return catalogue.every_user(self.tables)

    def set_user_permitted(self, name: str, permitted: bool, now: float) -> User:
        """A user who is not permitted has no pool in service."""
        text = self.tables.get(User.PREFIX + name)
        if text is not None:
            user = replace(User.from_json(text), permitted=permitted, modified_at=now)
        else:
            try:
                account = find_account(name, "")
            except InvalidInput:
                raise NotFound(f"there is no user {name}") from None
            user = User(name=account.user, permitted=permitted, modified_at=now, groups=group_names(account))
        self.tables.put(User.PREFIX + name, user.to_json())
        for pool in self.pools():
            if pool.owner == name:
                stopping.nudge(self.tables, pool.name)
        self._changes.bump()
        return user

    # --- when changes hold -----------------------------------------------------------------------

    def wait_in_force(self) -> None:
        """Returns when all gateways go by what was changed before this call."""
        time.sleep(self.in_force_seconds)

    @property
    def in_force_seconds(self) -> float:
        """How long a change takes to hold. Gateways of this machine go by it at once, those of others, which share
        Redis with it, when their copies have aged."""
        return self._settings.gateway.route_seconds if self._settings.tables.backend == "redis" else 0

    def wait_applied(self, pool: str, timeout: float) -> None:
        """Waits until the running backend has every bucket that was made before this call; at once if none runs."""
        wanted = catalogue.generation_of(self.tables, pool)
        deadline = time.monotonic() + timeout
        while self.tables.get(ENDPOINT + pool) is not None:
            text = self.tables.get(BackendEntry.PREFIX + pool)
            if text is None or BackendEntry.from_json(text).generation >= wanted:
                return
            if time.monotonic() >= deadline:
                raise Conflict(
                    f"the bucket is recorded, but the running backend of pool {pool} has not made it "
                    f"after {timeout:.0f} s; it will as soon as it answers"
                )
            time.sleep(_APPLIED_POLL_SECONDS)

    # --- parts -----------------------------------------------------------------------------------

    def _changed(self, pool: str) -> None:
        self._changes.bump()
        stopping.nudge(self.tables, pool)

    def _permitted(self, owner: str) -> bool:
        text = self.tables.get(User.PREFIX + owner)
        return User.from_json(text).permitted if text else True

    def _note_owner(self, account: Account, now: float) -> None:
        user = User(name=account.user, permitted=True, modified_at=now, groups=group_names(account))
        self.tables.put_if_absent(User.PREFIX + account.user, user.to_json())

    def _forget_contents(self, pool: str) -> None:
        for key in catalogue.keys_of(self.tables, pool):
            self.tables.delete(Key.PREFIX + key.access_key)
        for bucket in catalogue.buckets_of(self.tables, pool):
            self.tables.delete(Bucket.PREFIX + bucket.name)
            for prefix in _OF_BUCKETS:
                self.tables.delete(prefix + bucket.uid)

    def _refuse_if_moved(self, pool: str) -> None:
        moved = next(filter(self.has_moved, catalogue.buckets_of(self.tables, pool)), None)
        if moved is not None:
            raise _moved(moved)

    def _still_there(self, pool: Pool, key: str, value: str) -> None:
        """Takes an entry back that was made while its pool was deleted: a later pool must not inherit it."""
        text = self.tables.get(Pool.PREFIX + pool.name)
        if text is None or Pool.from_json(text).created_at != pool.created_at:
            self.tables.compare_and_set(key, value, None)
            raise NotFound(f"there is no pool {pool.name}")

    def _text(self, key: str, what: str) -> str:
        text = self.tables.get(key)
        if text is None:
            raise NotFound(f"there is no {what}")
        return text


def _moved(bucket: Bucket) -> Conflict:
    return Conflict(
        f"objects of bucket {bucket.name} were moved to other locations, and are found by its records alone: "
        f"delete them first (tidegate bucket purge {bucket.name})"
    )


def _check_expiry(expires_at: float | None, now: float) -> float | None:
    if _check_number(expires_at) is not None and expires_at is not None and expires_at <= now:
        raise InvalidInput("the expiry lies in the past")
    return expires_at


def _check_number(expires_at: float | None) -> float | None:
    # Unix times of the years 1 to 9999, which every part can show.
    if expires_at is not None and not 0 <= expires_at < 253_402_300_800:
        raise InvalidInput("the expiry is not a time between 1970 and 9999")
    return expires_at


def _random(characters: str, length: int) -> str:
    return "".join(secrets.choice(characters) for _ in range(length))
