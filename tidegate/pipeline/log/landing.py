"""Landing: new records of the metadata log's topic become rows of the log table, each exactly once.

The manifest that names the new files also says which record comes next: both change in one step, or neither does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.pipeline.column_types import arrow_schema
from tidegate.pipeline.log.event_columns import STAGED_SCHEMA, converted
from tidegate.pipeline.log.few_events import write_events
from tidegate.pipeline.log.log_table import LogTable, write_by_day
from tidegate.pipeline.log.manifest import DataFile, Manifest, RejectedFile
from tidegate.ports import Message, Topics

# Records read from the topic at a time, and those that one commit adds: the most that a crash makes us do again.
_READ_RECORDS = 20_000
_COMMIT_RECORDS = 1_000_000
_ROWS_PER_TASK = 250_000
# So few are converted here, without a job of Spark's; where one of them may be no event, by one task of Spark, which
# spares it the exchange of rows between two.
_FEW_ROWS = 50_000
_STAGED = arrow_schema(STAGED_SCHEMA)

Bounds = Sequence[tuple[int, int]]
# Told, before a commit, of the oldest event that it adds to each bucket, by uid.
BeforeCommit = Callable[[Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class Landing:
    """What was added: events (and how many of them by shard), and records that are none. Every event of which `ends`
    knew is in the table."""

    events: int
    rejected: int
    ends: tuple[int, ...]
    by_shard: Mapping[int, int]


def land(
    session: SparkSession,
    table: LogTable,
    topics: Topics,
    topic: str,
    *,
    now_ns: int,
    before_commit: BeforeCommit = lambda oldest: None,
    commit_records: int = _COMMIT_RECORDS,
) -> Landing:
    """Takes in everything that the topic held when it was called."""
    bounds = topics.bounds(topic)
    ends = tuple(end for _, end in bounds)
    with table.changing() as before:
        known = _started(before, topics, topic, bounds, now_ns)
        if known != before:
            table.commit(known)
        while known.next_offsets != ends:
            staged = table.fresh_work("staged")
            rows, reached = _stage(topics, topic, known.next_offsets, ends, commit_records, staged)
            grown = _added(session, table, known, staged, rows, reached)
            before_commit(table.oldest_by_bucket(set(grown.files) - set(known.files)))
            table.commit(grown)
            known = grown
        added = set(known.files) - set(before.files)
        by_shard = table.events_by_shard(added)
        return Landing(known.rows - before.rows, known.rejected_rows - before.rejected_rows, ends, by_shard)


def _started(known: Manifest, topics: Topics, topic: str, bounds: Bounds, now_ns: int) -> Manifest:
    """With the offsets to read on from. Records that the topic forgot before they were landed move the horizon."""
    if known.next_offsets and len(known.next_offsets) != len(bounds):
        raise Conflict(
            f"the topic {topic} has {len(bounds)} partitions, and had {len(known.next_offsets)} when it was landed: "
            "move the directory log-table away, and what the topic still holds is landed anew"
        )
    offsets = []
    horizon_ns = known.horizon_ns
    for partition, (first, end) in enumerate(bounds):
        following = known.next_offsets[partition] if known.next_offsets else 0
        if following > end:
            raise Conflict(
                f"partition {partition} of the topic {topic} ends at {end}, and {following} records were landed: "
                "it is another topic than before. Move the directory log-table away, and the new one is landed"
            )
        if following < first:
            horizon_ns = max(horizon_ns, _lost_until_ns(topics.read(topic, partition, first, 1), now_ns))
        offsets.append(max(first, following))
    return replace(known, next_offsets=tuple(offsets), horizon_ns=horizon_ns)


def _lost_until_ns(oldest: Sequence[Message], now_ns: int) -> int:
    """What the topic forgot had happened before the oldest record that it still holds was appended."""
    return int(oldest[0].appended_at * SECOND_NS) + 1 if oldest else now_ns


def _stage(
    topics: Topics, topic: str, starts: Sequence[int], ends: Sequence[int], most: int, folder: Path
) -> tuple[int, tuple[int, ...]]:
    """Copies records as they are to files, one per partition; gives their number and where to read on."""
    rows = 0
    reached = list(starts)
    for partition, end in enumerate(ends):
        if reached[partition] >= end or rows >= most:
            continue
        with pq.ParquetWriter(folder / f"{partition}.parquet", _STAGED, compression="zstd") as writer:
            while reached[partition] < end and rows < most:
                limit = min(_READ_RECORDS, end - reached[partition], most - rows)
                messages = topics.read(topic, partition, reached[partition], limit)
                writer.write_table(_columns(partition, messages))
                rows += len(messages)
                # A topic may have gaps; one that ends early was cut off behind our back, and holds no more.
                reached[partition] = messages[-1].offset + 1 if messages else end
    return rows, tuple(reached)


def _columns(partition: int, messages: Sequence[Message]) -> pa.Table:
    offsets = pa.array([message.offset for message in messages], pa.int64())
    values = pa.array([message.value for message in messages], pa.binary())
    partitions = pa.array([partition] * len(messages), pa.int32())
    return pa.Table.from_arrays([partitions, offsets, values], schema=_STAGED)


def _added(
    session: SparkSession, table: LogTable, known: Manifest, staged: Path, rows: int, reached: tuple[int, ...]
) -> Manifest:
    """The manifest with the staged records in the table's files, which are in place already."""
    files: list[DataFile] = []
    rejected: list[RejectedFile] = []
    if rows:
        written = table.fresh_work("landed")
        if rows > _FEW_ROWS or not write_events(sorted(staged.glob("*.parquet")), written):
            events = converted(session.read.schema(STAGED_SCHEMA).parquet(str(staged)))
            if rows <= _FEW_ROWS:
                events = events.coalesce(1)
            else:
                events = events.repartition(1 + rows // _ROWS_PER_TASK, "bucket_day")
            write_by_day(events, written)
        files, rejected = table.take_in(written)
    added = sum(file.rows for file in files) + sum(file.rows for file in rejected)
    if added != rows:
        raise Unavailable(f"{table.path}: {rows} records were read from the log, and {added} were written")
    return known.landed(reached, files, rejected)
