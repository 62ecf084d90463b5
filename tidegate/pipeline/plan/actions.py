"""The rules as a small frame: one row per action and kind of subject that it applies to, with all that follows from
the rules alone worked out by the core. The frame is sent to every executor, where subjects meet it by hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.core.lifecycle.assess import BucketContext, smallest_to_move
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, ROLES, SECOND_NS, day_length_ns
from tidegate.core.lifecycle.rules import ActionKind, RuleAction, RuleSet
from tidegate.core.shards import SHARDS

ALL_SHARDS = (1 << SHARDS) - 1
# Later than any pass. Times beyond it do not fit 64 bits once a subject's own time is added.
NEVER_NS = 2**62

_ACTION = pa.struct(
    [
        ("versioning", pa.string()),
        ("rule_id", pa.string()),
        ("action_id", pa.string()),
        ("kind", pa.string()),
        ("is_transition", pa.bool_()),
        ("prefix", pa.string()),
        ("tags", pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))),
        ("has_size", pa.bool_()),
        ("size_greater_than", pa.int64()),
        ("size_less_than", pa.int64()),
        ("date_ns", pa.int64()),
        ("wait_ns", pa.int64()),
        ("rounds_up", pa.bool_()),
        ("newer", pa.int32()),
        ("storage_class", pa.string()),
        ("coldness", pa.int32()),
        ("never_from", pa.list_(pa.string())),
        ("smallest", pa.int64()),
        ("keeps_null_markers", pa.bool_()),
        ("position", pa.int32()),
        ("shards", pa.int32()),
        ("now_ns", pa.int64()),
    ]
)
_SCHEMA = pa.schema([("bucket_uid", pa.string()), ("place", pa.string()), ("action", _ACTION)])


@dataclass(frozen=True, slots=True)
class ScopedAction:
    """An action, and the shards in which it is looked for, as bits of a number."""

    pair: RuleAction
    shards: int = ALL_SHARDS


@dataclass(frozen=True, slots=True)
class RuledBucket:
    """A bucket with its rules. `actions` are those to look for; None stands for all that are enabled, everywhere. The
    log is `complete` if it holds every event since the bucket was created.

    What is planned for a version where one of them is due is always what all the enabled rules together ask for.
    """

    uid: str
    rule_set: RuleSet
    bucket_context: BucketContext
    actions: tuple[ScopedAction, ...] | None = None
    complete: bool = True

    @property
    def scoped(self) -> tuple[ScopedAction, ...]:
        return tuple(map(ScopedAction, self.rule_set.active())) if self.actions is None else self.actions

    def widened(self, others: Iterable[ScopedAction]) -> RuledBucket:
        """With these actions looked for, too."""
        return replace(self, actions=(*self.scoped, *others))


def actions_frame(session: SparkSession, buckets: Sequence[RuledBucket], *, now_ns: int) -> DataFrame:
    """Columns: bucket_uid, place, action (a struct).

    The time at which they are judged is data like the rest: with it among the expressions Spark would have to compile
    every pass anew.
    """
    rows = [
        {"bucket_uid": bucket.uid, "place": place.value, "action": action | {"now_ns": now_ns}}
        for bucket in buckets
        for pair, action in _actions(bucket)
        for place in sorted(ROLES[pair.action.kind])
    ]
    return session.createDataFrame(pa.Table.from_pylist(rows, schema=_SCHEMA))


def most_newer(buckets: Iterable[RuledBucket]) -> int:
    """The largest number of noncurrent versions that an action keeps."""
    return max((pair.action.newer or 0 for bucket in buckets for pair in bucket.rule_set.active()), default=0)


def _actions(bucket: RuledBucket) -> Iterator[tuple[RuleAction, dict[str, Any]]]:
    shards: dict[int, int] = {}
    for scoped in bucket.scoped:
        shards[scoped.pair.position] = shards.get(scoped.pair.position, 0) | scoped.shards
    for pair in bucket.rule_set.active():
        coldness = bucket.bucket_context.coldness(pair.action.storage_class)
        if pair.action.kind.is_transition and coldness < 0:
            continue  # No location serves it.
        yield pair, _action(bucket, pair, coldness) | {"shards": shards.get(pair.position, 0)}


def _action(bucket: RuledBucket, pair: RuleAction, coldness: int) -> dict[str, Any]:
    action, where, bucket_context = pair.action, pair.rule.filter, bucket.bucket_context
    # A marker that is cleaned up is so from its creation on: no days, no rounding.
    counts_days = action.kind is not ActionKind.EXPIRED_OBJECT_DELETE_MARKER
    return {
        "versioning": bucket_context.versioning.value,
        "rule_id": pair.rule.id,
        "action_id": pair.id,
        "kind": action.kind.value,
        "is_transition": action.kind.is_transition,
        "prefix": where.prefix or "",
        "tags": [{"key": key, "value": value} for key, value in where.tags],
        "has_size": where.has_size,
        "size_greater_than": where.size_greater_than,
        "size_less_than": where.size_less_than,
        "date_ns": None if action.date is None else min(action.date * SECOND_NS, NEVER_NS),
        "wait_ns": min((action.days or 0) * day_length_ns(bucket_context.day_seconds), NEVER_NS) if counts_days else 0,
        "rounds_up": counts_days and bucket_context.day_seconds == REAL_DAY_SECONDS,
        "newer": action.newer,
        "storage_class": action.storage_class,
        "coldness": coldness,
        "never_from": [name for name in bucket_context.classes if bucket_context.coldness(name) >= coldness],
        "smallest": smallest_to_move(pair, bucket.rule_set.minimum, bucket_context) if action.kind.is_transition else 0,
        "keeps_null_markers": bucket_context.keeps_null_markers,
        "position": pair.position,
    }
