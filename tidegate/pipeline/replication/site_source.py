"""The versions in buckets of a site, as a Spark data source: listed in ranges of keys, each by one reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.core.errors import NotFound
from tidegate.core.listings import ListedVersion, latest_moment_ns
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.pipeline.replication.any_order import divide, read
from tidegate.pipeline.walk.key_ranges import KeyRange

_NAME = "tidegate-site"
_SHARES_PER_CORE = 4
_MOST_SHARES = 64
_BATCH = 2000

_LISTED_SCHEMA = StructType(
    columns(
        key=str, copy_id=str, is_latest=bool, copy_is_marker=bool, copy_size=int, copy_etag=str, created_ns=int,
        sequence=int,
    )
)  # fmt: skip
# What lies at sites: a row for each version in one of their buckets.
COPY_SCHEMA = StructType([*columns(site=str, site_bucket=str), *_LISTED_SCHEMA.fields])


def listed_copies(session: SparkSession, site: AuditedLocation, bucket: str) -> DataFrame:
    """Every version in the bucket at the site (`COPY_SCHEMA`). A bucket that is gone has none; one that cannot be
    listed is an error."""
    session.dataSource.register(_SiteSource)
    shares = min(_SHARES_PER_CORE * session.sparkContext.defaultParallelism, _MOST_SHARES)
    # Spark hides the values of options that have `secret` in their name.
    reader = session.read.format(_NAME).options(shares=shares, bucket=bucket, secret=site.to_json())
    return reader.load().select(F.lit(site.location.name).alias("site"), F.lit(bucket).alias("site_bucket"), "*")


@dataclass
class _Share(InputPartition):
    keys: KeyRange


class _SiteSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return _LISTED_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        site = AuditedLocation.from_json(self.options["secret"])
        return _SiteReader(site, self.options["bucket"], int(self.options["shares"]))


class _SiteReader(DataSourceReader):
    def __init__(self, site: AuditedLocation, bucket: str, shares: int) -> None:
        self._site = site
        self._bucket = bucket
        self._shares = shares

    def partitions(self) -> Sequence[InputPartition]:
        try:
            with closing(self._site.store()) as store:
                return [_Share(keys) for keys in divide(store, self._bucket, self._shares)]
        except NotFound:
            return [_Share(KeyRange(""))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Share)
        with closing(self._site.store()) as store, suppress(NotFound):
            versions, begin = read(store, self._bucket, partition.keys), 0
            while batch := list(islice(versions, _BATCH)):
                yield _rows(batch, begin)
                begin += len(batch)


def _rows(versions: Sequence[ListedVersion], begin: int) -> pa.RecordBatch:
    """`begin` is the place of the first one in the listing, which tells versions of the same second apart."""
    arrays = [
        pa.array([version.key for version in versions], pa.string()),
        pa.array([version.version_id for version in versions], pa.string()),
        pa.array([version.is_latest for version in versions], pa.bool_()),
        pa.array([version.is_marker for version in versions], pa.bool_()),
        pa.array([version.size for version in versions], pa.int64()),
        pa.array([version.etag for version in versions], pa.string()),
        pa.array([latest_moment_ns(version.modified) for version in versions], pa.int64()),
        pa.array(range(begin, begin + len(versions)), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(_LISTED_SCHEMA))
