"""Shards and hashes, of objects and of buckets' days: all come from a sha256, so that Spark can compute them too."""

from __future__ import annotations

from hashlib import sha256

SHARDS = 16
BUCKET_BITS = 40


def shard(bucket: str, key: str) -> int:
    """The top four bits of the hash: 0 to 15."""
    return sha256(f"{bucket}/{key}".encode()).digest()[0] >> 4


def key_hash(bucket: str, key: str) -> int:
    """The first eight bytes of the hash, as a signed 64-bit integer (a bigint of Spark)."""
    return int.from_bytes(sha256(f"{bucket}/{key}".encode()).digest()[:8], "big", signed=True)


def bucket_day(bucket_uid: str, day: int) -> int:
    """A number for a bucket's day (counted from 1970): those of one day lie together. Buckets may share one."""
    digest = sha256(bucket_uid.encode()).digest()
    return day << BUCKET_BITS | int.from_bytes(digest[: BUCKET_BITS // 8], "big")
