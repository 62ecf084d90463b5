"""What operators see and do, the same for the HTTP API and the command line.

The views are what leaves the service: they hold no secret, except that of a key in the answer to its creation.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pydantic import BaseModel, Field

from tidegate.core.errors import TidegateError
from tidegate.core.records import Bucket, GatewayEntry, Key, Pool, User
from tidegate.pools.registry import Registry
from tidegate.ports import Tables
from tidegate.table_pages import every
from tidegate.views import filled

# A running backend is to have a new bucket before the caller hears of it.
APPLY_SECONDS = 20.0


class PoolView(BaseModel):
    """A pool with its state."""

    name: str = Field(examples=["physics"])
    owner: str
    group: str
    directory: str
    backend: str = Field(examples=["seaweedfs"])
    online: bool
    direct_hostname: str
    created_at: datetime
    expires_at: datetime | None
    state: str = Field(description="NONE, INITIAL, READY, DISABLED or INOPERABLE.")
    reason: str = Field(description="Why it is in that state.")
    endpoint: str = Field(description="Where its backend listens; empty while it is asleep.")
    manager_pid: int | None
    backend_pid: int | None
    last_access_at: datetime | None


class PoolCreated(BaseModel):
    """A new pool and its first key. The secret is shown only here."""

    pool: str
    access_key: str
    secret_key: str
    key_policy: str
    owner: str
    backend: str
    directory: str
    expires_at: datetime | None


class KeyView(BaseModel):
    """An access key, without its secret."""

    access_key: str
    pool: str
    policy: str
    created_at: datetime
    expires_at: datetime | None


class KeyCreated(KeyView):
    """A new key. The secret is shown only here."""

    secret_key: str


class BucketView(BaseModel):
    """A bucket."""

    name: str
    pool: str
    uid: str
    policy: str
    created_at: datetime


class UserView(BaseModel):
    """An owner of pools."""

    name: str
    permitted: bool
    groups: list[str]
    modified_at: datetime


class GatewayView(BaseModel):
    """A running gateway process."""

    host: str
    port: int
    pid: int
    started_at: datetime
    modified_at: datetime


def seconds_of(when: datetime | None) -> float | None:
    """Unix time; a time without a zone is taken as UTC."""
    if when is None:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def view_pool(registry: Registry, pool: Pool) -> PoolView:
    return filled(PoolView, pool, registry.status(pool.name, time.time()))


def view_key(key: Key) -> KeyView:
    return filled(KeyView, key)


def view_bucket(bucket: Bucket) -> BucketView:
    return filled(BucketView, bucket)


def view_user(user: User) -> UserView:
    return filled(UserView, user)


def list_gateways(tables: Tables) -> list[GatewayView]:
    return [filled(GatewayView, GatewayEntry.from_json(text)) for _, text in every(tables, GatewayEntry.PREFIX)]


def list_buckets(registry: Registry, tables: Tables, pool: str) -> list[BucketView]:
    """Those of one pool, or, without a name, all."""
    if pool:
        registry.pool(pool)
        return [view_bucket(bucket) for bucket in registry.buckets(pool)]
    return [view_bucket(Bucket.from_json(text)) for _, text in every(tables, Bucket.PREFIX)]


def create_pool(
    registry: Registry,
    name: str,
    *,
    owner: str = "",
    group: str = "",
    directory: str = "",
    backend: str = "",
    direct_hostname: str = "",
    expires_at: float | None = None,
) -> PoolCreated:
    """A pool and a first key for it: both, or neither."""
    pool = registry.create_pool(
        name,
        now=time.time(),
        owner=owner,
        group=group,
        directory=directory,
        backend=backend,
        direct_hostname=direct_hostname,
        expires_at=expires_at,
    )
    try:
        key, secret = registry.create_key(pool.name, now=time.time())
    except TidegateError:
        registry.delete_pool(pool.name)
        raise
    return filled(PoolCreated, pool, key, secret_key=secret, key_policy=key.policy)


def create_key(registry: Registry, pool: str, *, policy: str, expires_at: float | None) -> KeyCreated:
    key, secret = registry.create_key(pool, now=time.time(), policy=policy, expires_at=expires_at)
    registry.wait_in_force()
    return filled(KeyCreated, key, secret_key=secret)


def delete_key(registry: Registry, access_key: str) -> None:
    registry.delete_key(access_key)
    registry.wait_in_force()


def create_bucket(registry: Registry, name: str, pool: str, *, policy: str) -> BucketView:
    bucket = registry.create_bucket(name, pool, now=time.time(), policy=policy)
    registry.wait_applied(pool, APPLY_SECONDS)
    return view_bucket(bucket)


def set_bucket_policy(registry: Registry, name: str, policy: str) -> BucketView:
    bucket = registry.set_bucket_policy(name, policy)
    registry.wait_in_force()
    return view_bucket(bucket)


def delete_bucket(registry: Registry, name: str) -> None:
    registry.delete_bucket(name)
    registry.wait_in_force()
