"""Shards and hashes of objects: both come from one sha256 of `bucket/key`, so that Spark can compute them too."""

from __future__ import annotations

from hashlib import sha256

SHARDS = 16


def shard(bucket: str, key: str) -> int:
    """The top four bits of the hash: 0 to 15."""
    return sha256(f"{bucket}/{key}".encode()).digest()[0] >> 4


def key_hash(bucket: str, key: str) -> int:
    """The first eight bytes of the hash, as a signed 64-bit integer (a bigint of Spark)."""
    return int.from_bytes(sha256(f"{bucket}/{key}".encode()).digest()[:8], "big", signed=True)
