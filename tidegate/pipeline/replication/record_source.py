"""The records of replication, as a Spark data source: entries of the tables, read in ranges, parsed by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, StructField, StructType

from tidegate.core.events import NULL_VERSION
from tidegate.core.replication.records import RECORDS
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.column_types import arrow_schema, columns

_NAME = "tidegate-replication-records"
_PAGE = 1000
_DIGITS = "123456789abcdef"

_ENTRY_SCHEMA = StructType(columns(value=str))
_STATE = StructType(columns(site=str, bucket=str, status=str, since=float, replica_version_id=str, replica_etag=str))
_RECORD = StructType(
    [
        *columns(bucket_uid=str, key=str, version_id=str, ts_ns=int, size=int, is_marker=bool, is_replica=bool),
        StructField("sites", ArrayType(_STATE)),
    ]
)
# A row for each record and site; a replica, which has no sites, is one row without.
STATE_SCHEMA = StructType(
    [
        *columns(bucket_uid=str, key=str, version_id=str, ts_ns=int, size=int, is_marker=bool, is_replica=bool),
        *columns(site=str, site_bucket=str, status=str, since=float, copy_id=str, copy_etag=str),
    ]
)


def recorded_states(
    session: SparkSession, place: InstallationPlace, *, bucket_uid: str = "", bounds: Sequence[str] = ()
) -> DataFrame:
    """The records of a bucket, or of all buckets (`STATE_SCHEMA`). They are read in ranges: `bounds` are keys at which
    those of one bucket are cut, uids are cut by their digits."""
    session.dataSource.register(_RecordSource)
    prefix = f"{RECORDS}{bucket_uid}/" if bucket_uid else RECORDS
    cuts = [prefix + bound for bound in (bounds if bucket_uid else _DIGITS)]
    # Spark hides the values of options that have `secret` in their name; settings may hold one.
    options = {"secret": place.settings, "data": place.data, "prefix": prefix, "cuts": json.dumps(sorted(cuts))}
    return states_in(session.read.format(_NAME).options(**options).load())


def states_in(texts: DataFrame) -> DataFrame:
    """Of records as text (`value`)."""
    parsed = texts.select(F.from_json("value", _RECORD, {"mode": "FAILFAST"}).alias("record")).select("record.*")
    exploded = parsed.select("*", F.explode_outer("sites").alias("state"))
    return exploded.select(
        "bucket_uid",
        "key",
        F.expr(f"coalesce(nullif(version_id, ''), '{NULL_VERSION}')").alias("version_id"),
        "ts_ns",
        F.coalesce("size", F.lit(0)).alias("size"),
        F.coalesce("is_marker", F.lit(False)).alias("is_marker"),
        F.coalesce("is_replica", F.lit(False)).alias("is_replica"),
        F.col("state.site").alias("site"),
        F.col("state.bucket").alias("site_bucket"),
        F.col("state.status").alias("status"),
        F.col("state.since").alias("since"),
        F.expr(f"coalesce(nullif(state.replica_version_id, ''), '{NULL_VERSION}')").alias("copy_id"),
        F.coalesce(F.col("state.replica_etag"), F.lit("")).alias("copy_etag"),
    )


@dataclass
class _Range(InputPartition):
    """Entries after `after`, and not after `until` unless it is empty."""

    after: str
    until: str


class _RecordSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return _ENTRY_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        place = InstallationPlace(self.options["secret"], self.options["data"])
        return _RecordReader(place, self.options["prefix"], json.loads(self.options["cuts"]))


class _RecordReader(DataSourceReader):
    def __init__(self, place: InstallationPlace, prefix: str, cuts: Sequence[str]) -> None:
        self._place = place
        self._prefix = prefix
        self._cuts = cuts

    def partitions(self) -> Sequence[InputPartition]:
        return [_Range(after, until) for after, until in pairwise([self._prefix, *self._cuts, ""])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        after, until = partition.after, partition.until.encode()
        with closing(self._place.tables()) as tables:
            while page := tables.scan(self._prefix, after=after, limit=_PAGE):
                inside = [text for entry, text in page if not until or entry.encode() <= until]
                values = [pa.array(inside, pa.string())]
                yield pa.RecordBatch.from_arrays(values, schema=arrow_schema(_ENTRY_SCHEMA))
                if len(inside) < len(page) or len(page) < _PAGE:
                    return
                after = page[-1][0]
