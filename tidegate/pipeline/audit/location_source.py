"""What lies in a location, as a Spark data source: listed in shares, each by one reader."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.assembly import open_location
from tidegate.core.locations import Location
from tidegate.pipeline.audit.location_shares import KeyStretch, divide, read
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.ports import Store, StoredObject

_NAME = "tidegate-location"
# More shares than there are cores, since shares differ in size.
_SHARES_PER_CORE = 4
_MOST_SHARES = 64
_SECOND_NS = 1_000_000_000

DATA_SCHEMA = StructType(columns(data_key=str, size=int, etag=str, modified_ns=int))


@dataclass(frozen=True, slots=True)
class AuditedLocation:
    """A location, and its secret as the store wants it."""

    location: Location
    secret: str = field(repr=False)

    def store(self) -> Store:
        return open_location(self.location, self.secret)

    def to_json(self) -> str:
        return json.dumps([self.location.to_json(), self.secret])

    @classmethod
    def from_json(cls, text: str) -> Self:
        location, secret = json.loads(text)
        return cls(Location.from_json(location), secret)


def listed_data(session: SparkSession, audited: AuditedLocation) -> DataFrame:
    """Everything under the location's prefix (`DATA_SCHEMA`). A location that cannot be listed is an error."""
    session.dataSource.register(_LocationSource)
    shares = min(_SHARES_PER_CORE * session.sparkContext.defaultParallelism, _MOST_SHARES)
    # Spark hides the values of options that have `secret` in their name.
    return session.read.format(_NAME).options(shares=shares, secret=audited.to_json()).load()


@dataclass
class _Share(InputPartition):
    stretches: list[KeyStretch]


class _LocationSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return DATA_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _LocationReader(AuditedLocation.from_json(self.options["secret"]), int(self.options["shares"]))


class _LocationReader(DataSourceReader):
    def __init__(self, audited: AuditedLocation, shares: int) -> None:
        self._audited = audited
        self._shares = shares

    def partitions(self) -> Sequence[InputPartition]:
        where = self._audited.location
        with closing(self._audited.store()) as store:
            return [_Share(stretches) for stretches in divide(store, where.bucket, where.prefix, self._shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Share)
        with closing(self._audited.store()) as store:
            for stretch in partition.stretches:
                yield from map(_batch, read(store, self._audited.location.bucket, stretch))


def _batch(page: Sequence[StoredObject]) -> pa.RecordBatch:
    columns_of_page = [
        pa.array([entry.key for entry in page], pa.string()),
        pa.array([entry.size for entry in page], pa.int64()),
        pa.array([entry.etag for entry in page], pa.string()),
        pa.array([int(entry.last_modified * _SECOND_NS) for entry in page], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns_of_page, schema=arrow_schema(DATA_SCHEMA))
