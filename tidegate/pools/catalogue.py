"""Every record of one kind in the tables, and the keys of those that are plain text."""

from __future__ import annotations

from tidegate.core.records import Bucket, Key, Pool, User
from tidegate.ports import Tables
from tidegate.table_pages import every

DIRECTORY = "bd:"
ENDPOINT = "ep:"
LAST_ACCESS = "ts:"
DIRECT_HOSTNAME = "dn:"
GENERATION = "gn:"


def every_pool(tables: Tables) -> list[Pool]:
    return [Pool.from_json(text) for _, text in every(tables, Pool.PREFIX)]


def every_user(tables: Tables) -> list[User]:
    return [User.from_json(text) for _, text in every(tables, User.PREFIX)]


def keys_of(tables: Tables, pool: str) -> list[Key]:
    return [key for _, text in every(tables, Key.PREFIX) if (key := Key.from_json(text)).pool == pool]


def buckets_of(tables: Tables, pool: str) -> list[Bucket]:
    return [bucket for _, text in every(tables, Bucket.PREFIX) if (bucket := Bucket.from_json(text)).pool == pool]


def generation_of(tables: Tables, pool: str) -> int:
    return int(tables.get(GENERATION + pool) or 0)


def next_generation(tables: Tables, pool: str) -> int:
    """Marks that the pool has a bucket that its backend may lack."""
    while True:
        current = tables.get(GENERATION + pool)
        following = int(current or 0) + 1
        if tables.compare_and_set(GENERATION + pool, current, str(following)):
            return following
