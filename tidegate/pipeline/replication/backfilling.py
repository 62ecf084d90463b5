"""The backfill: what is missing at the sites of a bucket goes into the queue of replication, sent by the executors.

FOLDER/missing/*.parquet    versions that were sent, or would be (`MISSING_SCHEMA`), once for each site
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate import settings as settings_module
from tidegate.assembly import open_topics
from tidegate.core.replication.records import ReplicationRecord
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.pipeline.replication import comparison
from tidegate.pipeline.replication.comparison import MISSING_SCHEMA, Lack
from tidegate.pipeline.replication.job import (
    MISSING,
    ComparedBucket,
    bytes_in,
    compared,
    rows_in,
    working_folder,
)
from tidegate.replication.enqueueing import enqueue, queued

_QUEUED = StructType(columns(queued=int))
_ENQUEUED_AT_ONCE = 250
_SECOND_NS = 1_000_000_000

Row = dict[str, Any]
Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Backfilled:
    """Versions are counted once for each site. `present` are there or on their way; `older` are versions that a rule
    matches and that are older than it, where the rule is not for existing objects."""

    compared: int
    missing: int
    missing_bytes: int
    present: int
    older: int
    queued: int = 0


@dataclass(frozen=True, slots=True)
class Home:
    """What records say of the bucket beside its name and uid."""

    pool: str
    bucket: str
    bucket_uid: str


def backfill(
    session: SparkSession, what: ComparedBucket, home: Home, folder: Path, *, dry_run: bool, overdue_before: float
) -> Backfilled:
    """Writes down what is missing, in a folder that must not exist, and queues it unless it is a dry run. What has been
    PENDING since before `overdue_before` (Unix time) may have lost its task, and is queued once more."""
    with working_folder(folder) as read:
        found = compared(session, what, read)
        is_under_way = (F.col("lack") == Lack.PENDING.value) & (F.col("since") >= overdue_before)
        missing = comparison.missing_in(found.wanted, found.copies).where(~is_under_way)
        missing.write.parquet(str(folder / MISSING))
        older = comparison.older(found.versions, what.rules, found.wanted, sorted(what.sites))
        older.write.parquet(str(read / "older"))
        lacking, of_interest = rows_in(folder / MISSING), rows_in(read / "wanted")
        sent = 0
        if lacking and not dry_run:
            written = session.read.schema(MISSING_SCHEMA).parquet(str(folder / MISSING))
            batches = in_order(written).mapInArrow(_sender(what.installation, home), _QUEUED)
            sent = sum(row["queued"] for row in batches.collect())  # a row for each batch
        return Backfilled(
            compared=of_interest,
            missing=lacking,
            missing_bytes=bytes_in(folder / MISSING),
            present=of_interest - lacking,
            older=rows_in(read / "older"),
            queued=sent,
        )


def in_order(missing: DataFrame) -> DataFrame:
    """A row for each version, with its sites and the bucket at each: all of a key's in one part, the oldest first."""
    names = ("key", "version_id", "is_marker", "size", "etag", "ts_ns", "modified_ns")
    target = F.struct(F.col("site"), F.col("site_bucket").alias("bucket"))
    versions = missing.groupBy(*names).agg(F.sort_array(F.collect_list(target)).alias("targets"))
    return versions.repartitionByRange("key").sortWithinPartitions("key", "ts_ns")


def _sender(installation: InstallationPlace, home: Home) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """What runs in the executors. A part that fails is repeated by Spark: to queue a version twice is safe."""

    def send(batches: Batches) -> Iterator[pa.RecordBatch]:
        settings = settings_module.restore(installation.settings)
        with (
            closing(installation.tables()) as tables,
            closing(open_topics(settings, Path(installation.data))) as topics,
        ):
            for batch in batches:
                now = time.time()
                records = [_record(row, home, now=now) for row in batch.to_pylist()]
                for part in _parts(records):
                    enqueue(tables, topics, part, is_check=True)
                sent = sum(len(record.sites) for record in records)
                yield pa.RecordBatch.from_pylist([{"queued": sent}], schema=arrow_schema(_QUEUED))

    return send


def _parts(records: Sequence[ReplicationRecord]) -> Iterator[Sequence[ReplicationRecord]]:
    for start in range(0, len(records), _ENQUEUED_AT_ONCE):
        yield records[start : start + _ENQUEUED_AT_ONCE]


def _record(row: Row, home: Home, *, now: float) -> ReplicationRecord:
    record = ReplicationRecord(
        pool=home.pool,
        bucket=home.bucket,
        bucket_uid=home.bucket_uid,
        key=row["key"],
        version_id=row["version_id"],
        ts_ns=row["ts_ns"],
        last_modified=row["modified_ns"] / _SECOND_NS,
        size=row["size"],
        etag=row["etag"],
        is_marker=row["is_marker"],
        is_found=True,
    )
    return queued(record, {target["site"]: target["bucket"] for target in row["targets"]}, now=now)
