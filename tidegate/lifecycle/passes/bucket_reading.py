"""What a pass takes as given: the buckets with their rules, their context and how far earlier passes have come.

It is read once, at the beginning. Nothing here wakes a pool, but for a bucket of which nothing was noted down yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.records import Bucket, BucketState
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_context import context_of
from tidegate.lifecycle.buckets.bucket_list import ListedBucket, active_rules, existing
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.lifecycle.passes.bucket_pass import BucketPass
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings
from tidegate.storage_classes import NONE_CONFIGURED, Configured, classes_in


def read_buckets(
    tables: Tables,
    stores: Stores,
    settings: LifecycleSettings,
    listed: Iterable[ListedBucket],
    *,
    now_ns: int,
    configured: Configured = NONE_CONFIGURED,
) -> Iterator[BucketPass]:
    """Those that still exist and have rules. `configured` are the locations of the settings."""
    classes = classes_in(tables, settings, configured)
    for entry in listed:
        bucket, rules = existing(tables, entry.name, entry.uid), active_rules(tables, entry.uid)
        if bucket is None or rules is None:
            continue
        found = BucketPass(entry.owner, bucket, rules, BucketContext(), CursorStore(tables).load(entry.uid))
        try:
            state = _state(tables, stores, bucket, now_ns)
            keeps_null_markers = stores.keeps_null_markers(bucket.pool)
        except TidegateError as error:
            yield replace(found, problem=f"its versioning is not known: {error}")
            continue
        day = day_seconds(tables, settings, bucket.pool)
        bucket_context = context_of(
            settings, Versioning(state.versioning), day, classes=classes, keeps_null_markers=keeps_null_markers
        )
        yield replace(found, bucket_context=bucket_context, known_since_ns=state.complete_since_ns)


def _state(tables: Tables, stores: Stores, bucket: Bucket, now_ns: int) -> BucketState:
    """What the gateway noted down. Of a bucket that is older than such notes the store is asked, once."""
    entry = BucketState.PREFIX + bucket.uid
    text = tables.get(entry)
    if text is None:
        versioning = stores.of_pool(bucket.pool).versioning(bucket.name)
        tables.put_if_absent(entry, BucketState(versioning.value, now_ns).to_json())
        # A gateway that changed it in the meantime knows better.
        text = tables.get(entry)
        assert text is not None
    return BucketState.from_json(text)
