"""What executors do with the findings of an audit: they ask the location for each of them, and hand orphans over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidegate import settings as settings_module
from tidegate.assembly import open_topics
from tidegate.core.data_references import DataOwner, reference_in
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import Component
from tidegate.core.replication.replicas import is_shown_as_replica
from tidegate.pipeline.audit.location_source import DATA_SCHEMA, AuditedLocation
from tidegate.pipeline.audit.reference_source import REFERENCE_SCHEMA, InstallationPlace
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.ports import Record, Store, Tables

_OWNER = ("component", "pool", "bucket", "bucket_uid", "key", "version_id")
# Data, and whose it is; the latter is empty where the data does not say so.
ORPHAN_SCHEMA = StructType([*DATA_SCHEMA.fields, *columns(**dict.fromkeys(_OWNER, str))])
_SENT = StructType(columns(sent=int))
_THREADS = 8
_SECOND_NS = 1_000_000_000
_APPEND_RECORDS = 500

Row = dict[str, Any]
Batches = Iterable[pa.RecordBatch]


def with_owners(orphans: DataFrame, audited: AuditedLocation) -> DataFrame:
    """The orphans (`DATA_SCHEMA`) that are still there, with whose they are (`ORPHAN_SCHEMA`)."""
    text = audited.to_json()

    def ask(batches: Batches) -> Iterator[pa.RecordBatch]:
        given = AuditedLocation.from_json(text)
        with closing(given.store()) as store:
            yield from _kept(batches, partial(_owned, store, given.location), ORPHAN_SCHEMA)

    return orphans.select(*DATA_SCHEMA.names).mapInArrow(ask, ORPHAN_SCHEMA)


def confirmed(missing: DataFrame, audited: AuditedLocation, place: InstallationPlace) -> DataFrame:
    """The placements (`REFERENCE_SCHEMA`) that still refer to data that is not there."""
    text = audited.to_json()

    def ask(batches: Batches) -> Iterator[pa.RecordBatch]:
        given = AuditedLocation.from_json(text)
        with closing(given.store()) as store, closing(place.tables()) as tables:
            yield from _kept(batches, partial(_lost, store, tables, given.location), REFERENCE_SCHEMA)

    return missing.mapInArrow(ask, REFERENCE_SCHEMA)


def sent(orphans: DataFrame, place: InstallationPlace, location: str, topic: str) -> DataFrame:
    """Appends a pending delete for each orphan (`ORPHAN_SCHEMA`) to the topic. A row for each batch: `sent`."""

    def append(batches: Batches) -> Iterator[pa.RecordBatch]:
        settings = settings_module.restore(place.settings)
        with closing(open_topics(settings, Path(place.data))) as topics:
            for batch in batches:
                records = [_record(row, location) for row in batch.to_pylist()]
                for start in range(0, len(records), _APPEND_RECORDS):
                    topics.append(topic, records[start : start + _APPEND_RECORDS])
                yield pa.RecordBatch.from_pylist([{"sent": len(records)}], schema=arrow_schema(_SENT))

    return orphans.mapInArrow(append, _SENT)


def _kept(batches: Batches, judge: Callable[[Row], Row | None], schema: StructType) -> Iterator[pa.RecordBatch]:
    """What the judge makes of the rows, without those of which it makes nothing. Each costs a request."""
    with ThreadPoolExecutor(_THREADS) as executor:
        for batch in batches:
            rows: Sequence[Row] = [row for row in executor.map(judge, batch.to_pylist()) if row is not None]
            yield pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(schema))


def _owned(store: Store, location: Location, row: Row) -> Row | None:
    """Data that does not say whose it is was put there by hand. If it is older than the location, it stays: somebody
    else has used the place before. Replicas are no orphans: nothing refers to them where they lie."""
    head = store.head(location.bucket, row["data_key"])
    if head is None:
        return None
    if is_shown_as_replica(head.headers):
        return None
    owner = DataOwner.of(head.headers)
    if owner is None and 0 < location.created_at * _SECOND_NS < row["modified_ns"]:
        owner = DataOwner(Component.UNKNOWN, "", "", "", "", "")
    return row | {name: str(getattr(owner, name)) if owner is not None else "" for name in _OWNER}


def _lost(store: Store, tables: Tables, location: Location, row: Row) -> Row | None:
    text = tables.get(row["entry"])
    found = reference_in(row["entry"], text, location.name) if text is not None else None
    if found is None or found.data_key != row["data_key"]:
        return None  # the version was deleted or moved on since
    return row if store.head(location.bucket, row["data_key"]) is None else None


def _record(row: Row, location: str) -> Record:
    owner = DataOwner(Component(row["component"]), *(row[name] for name in _OWNER[1:]))
    pending = owner.released(location, row["data_key"], row["etag"], now_ns=time.time_ns())
    return Record(f"{pending.bucket_uid}/{pending.key}", pending.to_bytes())
