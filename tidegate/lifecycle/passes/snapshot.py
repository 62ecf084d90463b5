"""What a pass takes as given: the buckets with their rules, their terms and how far earlier passes have come.

It is read once, at the beginning. Nothing here wakes a pool, but for a bucket of which nothing was noted down yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.cursors import Cursor
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.records import Bucket, BucketState
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_context import bucket_context
from tidegate.lifecycle.buckets.bucket_list import ListedBucket, active_rules, existing
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings


@dataclass(frozen=True, slots=True)
class BucketSnapshot:
    """`known_since_ns` is since when the metadata log has every change in the bucket (0: since it was made)."""

    owner: str
    bucket: Bucket
    rules: RuleSet
    terms: BucketContext
    known_since_ns: int
    cursors: Mapping[int, Cursor]

    @property
    def uid(self) -> str:
        return self.bucket.uid

    def horizon_ns(self, log_horizon_ns: int) -> int:
        """Since when the log is complete for this bucket, if it is so for all from `log_horizon_ns` on."""
        lost = log_horizon_ns > int(self.bucket.created_at * SECOND_NS)
        return max(self.known_since_ns, log_horizon_ns if lost else 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`problems` says, by bucket, why it cannot be dealt with."""

    buckets: list[BucketSnapshot] = field(default_factory=list)
    problems: dict[ListedBucket, str] = field(default_factory=dict)


def take_snapshot(
    tables: Tables, stores: Stores, settings: LifecycleSettings, listed: Iterable[ListedBucket], *, now_ns: int
) -> Snapshot:
    snapshot = Snapshot()
    cursors = CursorStore(tables)
    for entry in listed:
        bucket, rules = existing(tables, entry.name, entry.uid), active_rules(tables, entry.uid)
        if bucket is None or rules is None:
            continue
        try:
            state = _state(tables, stores, bucket, now_ns)
            keeps_null_markers = stores.keeps_null_markers(bucket.pool)
        except TidegateError as error:
            snapshot.problems[entry] = f"its versioning is not known: {error}"
            continue
        day = day_seconds(tables, settings, bucket.pool)
        terms = bucket_context(settings, Versioning(state.versioning), day, keeps_null_markers=keeps_null_markers)
        snapshot.buckets.append(
            BucketSnapshot(entry.owner, bucket, rules, terms, state.complete_since_ns, cursors.load(entry.uid))
        )
    return snapshot


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
