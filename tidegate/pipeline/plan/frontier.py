"""Which events can have made something due since the last pass: the window of time that each rule asks for.

A rule of D days finds its objects among the events of a stretch that lies D days back, and looks at nothing else.
Beside that, an event of the stretch itself counts where it can make a rule match late: a tag that was set, a version
that went.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, day_length_ns
from tidegate.core.lifecycle.rules import ActionKind, RuleAction
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import SHARDS, bucket_day
from tidegate.pipeline.log.event_columns import NS_PER_DAY
from tidegate.pipeline.log.log_table import Span
from tidegate.pipeline.plan.actions import NEVER_NS, RuledBucket, ScopedAction
from tidegate.pipeline.plan.version_roles import IS_NULL

_STARTS = (EventKind.PUT.value, EventKind.DELETE_MARKER.value)
# A shard is one of those that are bits of a number.
_IS_AMONG = "getbit(shards, shard) = 1"
_IS_CANDIDATE = f"""
    ts_ns BETWEEN first_ns AND last_ns
    AND array_contains(operations, operation)
    AND {_IS_AMONG}
    AND startswith(key, prefix)
    AND (NOT nulls_only OR operation NOT IN {_STARTS} OR {IS_NULL})"""
_WINDOW_SCHEMA = pa.schema(
    [
        ("bucket_uid", pa.string()),
        ("bucket_day", pa.int64()),
        ("shards", pa.int32()),
        ("operations", pa.list_(pa.string())),
        ("prefix", pa.string()),
        ("nulls_only", pa.bool_()),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
        ("way", pa.string()),
    ]
)
_FRONTIER_SCHEMA = pa.schema([("bucket_uid", pa.string()), ("shards", pa.int32()), ("after_ns", pa.int64())])
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far a bucket has come: per shard, the time up to which everything is done. Shards that are not named are
    not replayed."""

    bucket: RuledBucket
    after_ns: dict[int, int]

    def stretches(self) -> dict[int, int]:
        """Shards that have come equally far are taken together, as bits of a number, by their time."""
        found: dict[int, int] = {}
        for shard, after_ns in self.after_ns.items():
            assert 0 <= shard < SHARDS
            found[after_ns] = found.get(after_ns, 0) | 1 << shard
        return found


@dataclass(frozen=True, slots=True)
class DueWindow:
    """Events of these kinds, from `first_ns` to `last_ns`, may have made something due for keys with this prefix. With
    `nulls_only` puts and markers count only where they can have taken the place of a null version."""

    bucket_uid: str
    shards: int
    operations: tuple[str, ...]
    prefix: str
    nulls_only: bool
    first_ns: int
    last_ns: int

    @property
    def is_of_uploads(self) -> bool:
        return EventKind.UPLOAD_STARTED.value in self.operations


# A window and a day of events that it asks for.
WindowDay = tuple[DueWindow, int]


def due_windows(frontiers: Sequence[Frontier], until_ns: int) -> list[DueWindow]:
    return [
        window
        for frontier in frontiers
        for after_ns, shards in frontier.stretches().items()
        for window in _windows_of(frontier.bucket, shards, after_ns, until_ns)
        if window.shards and window.first_ns <= window.last_ns
    ]


def spans(found: Sequence[DueWindow]) -> list[Span]:
    """The stretches of time that are to be read, joined where they touch."""
    joined: list[Span] = []
    for first_ns, last_ns in sorted((window.first_ns, window.last_ns) for window in found):
        if joined and first_ns <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last_ns, joined[-1][1]))
        else:
            joined.append((first_ns, last_ns))
    return joined


def window_days(found: Sequence[DueWindow], days: Collection[int]) -> list[WindowDay]:
    """Which windows ask for which of the days (counted from 1970) of which there are events."""
    return [
        (window, day)
        for window in found
        for day in days
        if window.first_ns // NS_PER_DAY <= day <= window.last_ns // NS_PER_DAY
    ]


def candidates(
    events: DataFrame, session: SparkSession, met: Sequence[WindowDay], way: Callable[[DueWindow], str]
) -> DataFrame:
    """The events that can have made something due, each with the `way` of its window; one may come several times.
    They meet the windows of their bucket and day only."""
    names = [name for name in _WINDOW_SCHEMA.names if name not in ("bucket_day", "way")]
    rows = [
        {name: getattr(window, name) for name in names}
        | {"bucket_day": bucket_day(window.bucket_uid, day), "way": way(window)}
        for window, day in met
    ]
    windows = session.createDataFrame(pa.Table.from_pylist(rows, schema=_WINDOW_SCHEMA))
    joined = events.join(F.broadcast(windows), ["bucket_day", "bucket_uid"])
    return joined.where(_IS_CANDIDATE).select(*events.columns, "way")


def newly_due(plan: DataFrame, session: SparkSession, frontiers: Sequence[Frontier]) -> DataFrame:
    """Of a plan, what became due after the frontiers."""
    rows = [
        {"bucket_uid": frontier.bucket.uid, "shards": shards, "after_ns": after_ns}
        for frontier in frontiers
        for after_ns, shards in frontier.stretches().items()
    ]
    reached = session.createDataFrame(pa.Table.from_pylist(rows, schema=_FRONTIER_SCHEMA))
    joined = plan.join(F.broadcast(reached), "bucket_uid")
    return joined.where(f"newest_due_ns > after_ns AND {_IS_AMONG}").select(*plan.columns)


def _windows_of(bucket: RuledBucket, shards: int, after_ns: int, until_ns: int) -> Iterator[DueWindow]:
    # Due times are rounded up to midnights: those after a moment are those after the midnight before it.
    step_ns = NS_PER_DAY if bucket.bucket_context.day_seconds == REAL_DAY_SECONDS else 1
    reached_ns, end_ns = after_ns // step_ns * step_ns, until_ns // step_ns * step_ns
    scoped = bucket.scoped
    for (operations, prefix, wait_ns), mask in _masks(scoped, lambda pair: _waiting(pair, bucket)).items():
        yield DueWindow(
            bucket.uid, shards & mask, operations, prefix, False, reached_ns - wait_ns + 1, end_ns - wait_ns
        )
    if bucket.bucket_context.versioning is not Versioning.OFF:
        of_versions = [action for action in scoped if _starts(action.pair) == _STARTS]
        for prefix, mask in _masks(of_versions, _prefix).items():
            operations = (EventKind.DELETE.value, *_STARTS)
            yield DueWindow(bucket.uid, shards & mask, operations, prefix, True, after_ns + 1, until_ns)
    tagged = [action for action in scoped if action.pair.rule.filter.tags]
    for prefix, mask in _masks(tagged, _prefix).items():
        yield DueWindow(bucket.uid, shards & mask, (EventKind.TAGGING.value,), prefix, False, after_ns + 1, until_ns)


def _masks(scoped: Sequence[ScopedAction], what: Callable[[RuleAction], _T]) -> dict[_T, int]:
    """What the actions have in common, with the shards of all that have it."""
    found: dict[_T, int] = {}
    for action in scoped:
        one = what(action.pair)
        found[one] = found.get(one, 0) | action.shards
    return found


def _waiting(pair: RuleAction, bucket: RuledBucket) -> tuple[tuple[str, ...], str, int]:
    """From which events of which keys an action counts how long."""
    wait_ns = min((pair.action.days or 0) * day_length_ns(bucket.bucket_context.day_seconds), NEVER_NS)
    return _starts(pair), _prefix(pair), wait_ns


def _starts(pair: RuleAction) -> tuple[str, ...]:
    """The events from which an action counts its days; the new version is what demotes the one before it."""
    if pair.action.kind is ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD:
        return (EventKind.UPLOAD_STARTED.value,)
    return _STARTS


def _prefix(pair: RuleAction) -> str:
    return pair.rule.filter.prefix or ""
