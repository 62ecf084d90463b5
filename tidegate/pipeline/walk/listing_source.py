"""The walker: versions and open uploads of buckets as a Spark data source, each bucket read once, in parallel.

A bucket is listed in shares (`key_ranges`), or its inventory report is read file by file (`inventory`). Tags are
fetched on the way, where a rule asks for them and nowhere else. A bucket that cannot be read is a row with a `problem`,
so that it blocks no other bucket.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.assembly import open_store
from tidegate.core.errors import TidegateError
from tidegate.pipeline.walk.inventory import Report, ReportFile, check, open_report
from tidegate.pipeline.walk.inventory_rows import report_rows
from tidegate.pipeline.walk.key_ranges import KeyRange, divide, read
from tidegate.pipeline.walk.listed_rows import LISTED_SCHEMA, LISTED_UPLOAD_SCHEMA, Rows
from tidegate.pipeline.walk.tag_needs import TagNeed, with_tags
from tidegate.ports import Store
from tidegate.walking import UNSHOWABLE, upload_pages

_NAME = "tidegate-listing"
# More shares of a bucket than there are cores, since shares differ in size.
_SHARES_PER_CORE = 4
_MOST_SHARES = 64
# Buckets whose pools must be woken wait for that together.
_DIVIDERS = 8


@dataclass(frozen=True, slots=True)
class WalkedBucket:
    """A bucket, and how it is reached. Only keys that begin with `prefix` are listed. `inventory` is the address of a
    report's manifest that is read instead of listing versions; it is right up to `inventory_until_ns`."""

    uid: str
    name: str
    owner: str
    url: str
    access_key: str
    secret: str = field(repr=False)
    prefix: str = ""
    tag_needs: tuple[TagNeed, ...] = ()
    inventory: str = ""
    inventory_until_ns: int = 0

    def rows(self) -> Rows:
        return Rows(self.uid, self.name, self.owner)

    def store(self) -> Store:
        return open_store(self.url, self.access_key, self.secret)


def listed_versions(session: SparkSession, buckets: Sequence[WalkedBucket]) -> DataFrame:
    """Every version (`LISTED_SCHEMA`). Rows that are not `resolved` name keys that are not shown as they are or whose
    versions have no certain order, or, with a `problem` and without a key, buckets that cannot be listed."""
    listed = _load(session, buckets, "versions")
    return _without_guesses(listed) if any(bucket.inventory for bucket in buckets) else listed


def listed_uploads(session: SparkSession, buckets: Sequence[WalkedBucket]) -> DataFrame:
    """Every open upload (`LISTED_UPLOAD_SCHEMA`), and the buckets whose uploads cannot be listed."""
    return _load(session, buckets, "uploads")


def newest_first() -> list[Column]:
    """The order of a key's listed versions. Some stores put the null version last, wherever it belongs."""
    return [F.col("is_latest").desc(), F.col("created_ns").desc(), F.col("sequence")]


def _without_guesses(listed: DataFrame) -> DataFrame:
    """A listing has a key's versions in their order; a report has not, and of two noncurrent versions of the same
    second it cannot be known which one is newer: such keys are not resolved."""
    of_key = Window.partitionBy("bucket_uid", "key")
    before = F.lag(F.struct("created_ns", "is_latest")).over(of_key.orderBy(*newest_first()))
    is_tied = F.col("reported_ns").isNotNull() & before.eqNullSafe(F.struct("created_ns", "is_latest"))
    resolved = F.col("resolved") & ~F.max("is_tied").over(of_key)
    return listed.withColumn("is_tied", is_tied).withColumn("resolved", resolved).select(*LISTED_SCHEMA.names)


def _load(session: SparkSession, buckets: Sequence[WalkedBucket], what: str) -> DataFrame:
    session.dataSource.register(_ListingSource)
    shares = min(_SHARES_PER_CORE * session.sparkContext.defaultParallelism, _MOST_SHARES)
    # Spark hides the values of options that have `secret` in their name.
    secret = json.dumps([asdict(bucket) for bucket in buckets])
    return session.read.format(_NAME).options(what=what, shares=shares, secret=secret).load()


@dataclass
class _Part(InputPartition):
    """What one reader reads of a bucket, nothing where there is nothing; or why the bucket cannot be divided."""

    bucket: WalkedBucket
    share: KeyRange | None = None
    report: Report | None = None
    file: ReportFile | None = None
    problem: str = ""


class _ListingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return LISTED_SCHEMA if self.options["what"] == "versions" else LISTED_UPLOAD_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        buckets = [_bucket(values) for values in json.loads(self.options["secret"])]
        if self.options["what"] == "uploads":
            return _UploadReader(buckets)
        return _VersionReader(buckets, int(self.options["shares"]))


def _bucket(values: dict[str, Any]) -> WalkedBucket:
    needs = tuple(TagNeed(**need) for need in values.pop("tag_needs"))
    return WalkedBucket(**values, tag_needs=needs)


class _BucketReader(DataSourceReader):
    """What reading versions and reading uploads have in common: a store per part, and problems as rows."""

    shape: StructType

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        try:
            if partition.problem:
                raise TidegateError(partition.problem)
            with closing(partition.bucket.store()) as store:
                yield from self.batches(store, partition)
        except TidegateError as error:
            yield partition.bucket.rows().problem(self.shape, str(error))

    @abstractmethod
    def batches(self, store: Store, part: _Part) -> Iterator[pa.RecordBatch]:
        """What there is in the part."""


class _VersionReader(_BucketReader):
    shape = LISTED_SCHEMA

    def __init__(self, buckets: Sequence[WalkedBucket], shares: int) -> None:
        self._buckets = buckets
        self._shares = shares

    def partitions(self) -> Sequence[InputPartition]:
        with ThreadPoolExecutor(_DIVIDERS) as dividers:
            return [part for parts in dividers.map(self._parts, self._buckets) for part in parts]

    def _parts(self, bucket: WalkedBucket) -> list[_Part]:
        try:
            with closing(bucket.store()) as store:
                if bucket.inventory:
                    report = open_report(bucket.inventory, store)
                    check(report, bucket.name, store)
                    return [_Part(bucket, report=report, file=file) for file in report.files] or [_Part(bucket)]
                return [_Part(bucket, share) for share in divide(store, bucket.name, bucket.prefix, self._shares)]
        except TidegateError as error:
            return [_Part(bucket, problem=str(error))]

    def batches(self, store: Store, part: _Part) -> Iterator[pa.RecordBatch]:
        bucket = part.bucket
        for batch in _versions(store, part):
            yield with_tags(batch, bucket.tag_needs, store, bucket.name)


class _UploadReader(_BucketReader):
    shape = LISTED_UPLOAD_SCHEMA

    def __init__(self, buckets: Sequence[WalkedBucket]) -> None:
        self._buckets = buckets

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(bucket) for bucket in self._buckets]

    def batches(self, store: Store, part: _Part) -> Iterator[pa.RecordBatch]:
        bucket = part.bucket
        for uploads in upload_pages(store, bucket.name, prefix=bucket.prefix):
            yield bucket.rows().uploads(uploads)


def _versions(store: Store, part: _Part) -> Iterator[pa.RecordBatch]:
    bucket, rows = part.bucket, part.bucket.rows()
    if part.report is not None and part.file is not None:
        yield from report_rows(rows, part.report, part.file, store, bucket.prefix)
    elif part.share is not None:
        for versions in read(store, bucket.name, part.share):
            yield rows.versions([version for version in versions if UNSHOWABLE not in version.key])
            hidden = {version.key for version in versions if UNSHOWABLE in version.key}
            if hidden:
                yield rows.unresolved(sorted(hidden))
