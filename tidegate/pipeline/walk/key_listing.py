"""All versions of single keys, asked of their stores by the executors: for keys of which the log does not know all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.assembly import open_store
from tidegate.core.errors import TidegateError
from tidegate.pipeline.walk.listed_rows import LISTED_SCHEMA
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.pipeline.walk.tag_needs import with_tags
from tidegate.walking import versions_of

# Keys wait for their stores' answers, not for a processor.
_READERS = 8


def listed_keys(keys: DataFrame, buckets: Sequence[WalkedBucket]) -> DataFrame:
    """The versions of keys (bucket_uid, key), as `listing_source.listed_versions` gives those of buckets."""
    spread = keys.select("bucket_uid", "key").repartition(_READERS)
    return spread.mapInArrow(_lister({bucket.uid: bucket for bucket in buckets}), LISTED_SCHEMA)


def _lister(
    buckets: dict[str, WalkedBucket],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in the executors, over batches of keys."""

    def list_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            by_bucket: dict[str, list[str]] = {}
            for uid, key in zip(batch.column("bucket_uid").to_pylist(), batch.column("key").to_pylist(), strict=True):
                by_bucket.setdefault(uid, []).append(key)
            for uid, keys in by_bucket.items():
                yield from _listed(buckets[uid], keys)

    return list_batches


def _listed(bucket: WalkedBucket, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A bucket that cannot be listed is a row with a `problem`, and blocks no other."""
    rows = bucket.rows()
    try:
        store = open_store(bucket.url, bucket.access_key, bucket.secret)
        try:
            versions = [version for key in keys for version in versions_of(store, bucket.name, key)]
            yield with_tags(rows.versions(versions), bucket.tag_needs, store, bucket.name)
        finally:
            store.close()
    except TidegateError as error:
        yield rows.problem(LISTED_SCHEMA, str(error))
