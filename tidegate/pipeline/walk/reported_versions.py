"""Versions of walked buckets, with inventory reports brought up to the present by the log.

A report shows its own moment. Every key that changed since then, as the log knows, is listed by itself instead: so a
version that became current again, or an object that was written since, is seen as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.walk.key_listing import listed_keys
from tidegate.pipeline.walk.listing_source import WalkedBucket, listed_versions

_KEY = ["bucket_uid", "key"]
# A page of a listing shows a thousand keys, and a key by itself costs a request: beyond this, listing is quicker.
_MOST_CHANGED_KEYS = 10_000


def versions_of_buckets(
    session: SparkSession, table: LogTable, buckets: Sequence[WalkedBucket], *, most_changed: int = _MOST_CHANGED_KEYS
) -> DataFrame:
    """Every version, as `listed_versions` gives them. Where too many keys changed, the bucket is listed."""
    reported = [bucket for bucket in buckets if bucket.inventory]
    if not reported:
        return listed_versions(session, buckets)
    changed = _changed_keys(session, table, reported)
    counts = {row["bucket_uid"]: row["count"] for row in changed.groupBy("bucket_uid").count().collect()}
    busy = {uid for uid, count in counts.items() if count > most_changed}
    places = [replace(bucket, inventory="") if bucket.uid in busy else bucket for bucket in buckets]
    singly = changed.where(~F.col("bucket_uid").isin(busy)) if busy else changed
    versions = listed_versions(session, places).join(singly, _KEY, "left_anti")
    return versions.unionByName(listed_keys(singly, reported))


def _changed_keys(session: SparkSession, table: LogTable, reported: Sequence[WalkedBucket]) -> DataFrame:
    since_ns = min(bucket.inventory_until_ns for bucket in reported)
    uids = {bucket.uid for bucket in reported}
    events = table.read(session, since_ns=since_ns, uids=uids, columns=("ts_ns", *_KEY))
    return events.where(reduce(Column.__or__, map(_is_later, reported))).select(*_KEY).distinct()


def _is_later(bucket: WalkedBucket) -> Column:
    is_key = (F.col("key") != "") & F.col("key").startswith(bucket.prefix)
    return (F.col("bucket_uid") == bucket.uid) & (F.col("ts_ns") >= bucket.inventory_until_ns) & is_key
