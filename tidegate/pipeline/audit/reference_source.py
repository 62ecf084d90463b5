"""What refers to the data of a location, as a Spark data source: entries of the tables, read page by page in ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.copies import COPIES
from tidegate.core.data_references import Reference, reference_in
from tidegate.core.placements import PLACEMENTS
from tidegate.core.trash import TRASH
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.ports import Tables

_NAME = "tidegate-references"
_PAGE = 1000
_DIGITS = "123456789abcdef"

REFERENCE_SCHEMA = StructType(columns(**{one.name: str for one in fields(Reference)}))


@dataclass(frozen=True, slots=True)
class InstallationPlace:
    """How executors reach tables and topics: the settings as they are dumped, and the data directory."""

    settings: str
    data: str

    def tables(self) -> Tables:
        return open_tables(settings_module.restore(self.settings), Path(self.data))


def copies(session: SparkSession, place: InstallationPlace, location: str) -> DataFrame:
    """Those that were begun and are not placed yet (`REFERENCE_SCHEMA`)."""
    return _load(session, place, location, f"{COPIES}{location}/")


def trash(session: SparkSession, place: InstallationPlace, location: str) -> DataFrame:
    """What was deleted and is kept in the location (`REFERENCE_SCHEMA`)."""
    return _load(session, place, location, TRASH)


def placements(session: SparkSession, place: InstallationPlace, location: str) -> DataFrame:
    """Those whose data lies in the location (`REFERENCE_SCHEMA`)."""
    return _load(session, place, location, PLACEMENTS)


def _load(session: SparkSession, place: InstallationPlace, location: str, prefix: str) -> DataFrame:
    session.dataSource.register(_ReferenceSource)
    # Spark hides the values of options that have `secret` in their name; settings may hold one.
    options = {"secret": place.settings, "data": place.data, "location": location, "prefix": prefix}
    return session.read.format(_NAME).options(**options).load()


@dataclass
class _Range(InputPartition):
    """Entries after `after`, and before `before` unless it is empty."""

    after: str
    before: str


class _ReferenceSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return REFERENCE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        place = InstallationPlace(self.options["secret"], self.options["data"])
        return _ReferenceReader(place, self.options["location"], self.options["prefix"])


class _ReferenceReader(DataSourceReader):
    def __init__(self, place: InstallationPlace, location: str, prefix: str) -> None:
        self._place = place
        self._location = location
        self._prefix = prefix

    def partitions(self) -> Sequence[InputPartition]:
        """Placements and the trash begin with the uid of their bucket, in hex digits. Whatever else it were, none is
        left out."""
        cuts = [self._prefix + digit for digit in _DIGITS] if self._prefix in (PLACEMENTS, TRASH) else []
        return [_Range(after, before) for after, before in pairwise([self._prefix, *cuts, ""])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        after, before = partition.after, partition.before.encode()
        with closing(self._place.tables()) as tables:
            while page := tables.scan(self._prefix, after=after, limit=_PAGE):
                inside = [(entry, text) for entry, text in page if not before or entry.encode() < before]
                yield self._batch(inside)
                if len(inside) < len(page) or len(page) < _PAGE:
                    return
                after = page[-1][0]

    def _batch(self, page: Sequence[tuple[str, str]]) -> pa.RecordBatch:
        found = [one for entry, text in page if (one := reference_in(entry, text, self._location)) is not None]
        arrays = [pa.array([getattr(one, name) for one in found], pa.string()) for name in REFERENCE_SCHEMA.names]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(REFERENCE_SCHEMA))
