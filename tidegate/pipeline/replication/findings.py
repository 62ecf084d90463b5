"""What executors do with what a comparison finds: they look at each record once more, and at the site where that tells.

A bucket is replicated on while it is compared. What was listed first and recorded last is then not as it seemed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidegate.core.data_references import DataOwner
from tidegate.core.events import NULL_VERSION
from tidegate.core.pending_deletes import Component
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status, entries_of_key, entry_of
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.column_types import arrow_schema
from tidegate.pipeline.replication.any_order import versions_of
from tidegate.pipeline.replication.comparison import DIFFERENT_SCHEMA, EXTRA_SCHEMA, MISSING_SCHEMA, Difference, Lack
from tidegate.ports import Store, Tables

_THREADS = 8
_LACKS = {Status.PENDING: Lack.PENDING, Status.FAILED: Lack.FAILED, Status.COMPLETED: Lack.NO_COPY}

Row = dict[str, Any]
Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class ComparedPlace:
    """How executors reach what is compared: the tables, and the sites by their names."""

    installation: InstallationPlace
    bucket_uid: str
    sites: Mapping[str, AuditedLocation]


@dataclass(frozen=True, slots=True)
class _Place:
    """The same, opened."""

    bucket_uid: str
    tables: Tables
    sites: Mapping[str, Store]

    def record(self, row: Row) -> ReplicationRecord | None:
        text = self.tables.get(entry_of(self.bucket_uid, row["key"], row["version_id"]))
        return ReplicationRecord.from_json(text) if text is not None else None


def confirmed_missing(found: DataFrame, place: ComparedPlace) -> DataFrame:
    """Those that are missing still (`MISSING_SCHEMA`), and why."""
    return found.mapInArrow(_asker(_still_missing, place, MISSING_SCHEMA), MISSING_SCHEMA)


def confirmed_different(found: DataFrame, place: ComparedPlace) -> DataFrame:
    """Those that differ still (`DIFFERENT_SCHEMA`)."""
    return found.mapInArrow(_asker(_still_different, place, DIFFERENT_SCHEMA), DIFFERENT_SCHEMA)


def confirmed_extra(found: DataFrame, place: ComparedPlace) -> DataFrame:
    """Those that are there still, and are nothing's copy (`EXTRA_SCHEMA`)."""
    return found.mapInArrow(_asker(_still_extra, place, EXTRA_SCHEMA), EXTRA_SCHEMA)


def _asker(
    judge: Callable[[_Place, Row], Row | None], place: ComparedPlace, schema: StructType
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """What runs in the executors. Each row costs a look, and rows are few where all is well."""
    installation, uid = place.installation, place.bucket_uid
    texts = {name: site.to_json() for name, site in place.sites.items()}

    def ask(batches: Batches) -> Iterator[pa.RecordBatch]:
        with ExitStack() as opened:
            tables = opened.enter_context(closing(installation.tables()))
            sites = {
                name: opened.enter_context(closing(AuditedLocation.from_json(text).store()))
                for name, text in texts.items()
            }
            threads = opened.enter_context(ThreadPoolExecutor(_THREADS))
            for batch in batches:
                rows = threads.map(partial(judge, _Place(uid, tables, sites)), batch.to_pylist())
                kept = [row for row in rows if row is not None]
                yield pa.RecordBatch.from_pylist(kept, schema=arrow_schema(schema))

    return ask


def _still_missing(place: _Place, row: Row) -> Row | None:
    record = place.record(row)
    if record is None:
        # A version whose record went is no more; one that never had a record is as it was.
        return row if row["status"] is None else None
    if record.is_replica:
        return None
    state = record.at(row["site"])
    if state is None or state.bucket != row["site_bucket"]:
        return row | {"lack": Lack.UNKNOWN.value}
    if state.status is Status.COMPLETED and _is_there(place, row, state):
        return row | {"lack": Lack.SHARED.value} if _is_shared(place, record, state) else None
    return row | {"lack": _LACKS[state.status].value}


def _is_there(place: _Place, row: Row, state: SiteState) -> bool:
    store, copy_id = place.sites[row["site"]], state.replica_version_id or NULL_VERSION
    if not row["is_marker"]:
        return store.head(state.bucket, row["key"], copy_id) is not None
    return any(each.version_id == copy_id for each in versions_of(store, state.bucket, row["key"]))


def _is_shared(place: _Place, record: ReplicationRecord, state: SiteState) -> bool:
    """Whether an older version of the key claims the same copy."""
    return any(
        other.ts_ns < record.ts_ns
        and (known := other.at(state.site)) is not None
        and (known.bucket, known.replica_version_id) == (state.bucket, state.replica_version_id)
        for other in _records_of_key(place, record.key)
    )


def _still_different(place: _Place, row: Row) -> Row | None:
    """A record that names another copy by now is of a version that was replicated again meanwhile."""
    record = place.record(row)
    state = record.at(row["site"]) if record is not None else None
    if state is None or state.status is not Status.COMPLETED:
        return None
    if (state.replica_version_id or NULL_VERSION) != row["copy_id"]:
        return None
    if row["difference"] != Difference.ETAG.value:
        return row
    # Some stores list other ETags than they show, those of objects in parts.
    head = place.sites[row["site"]].head(state.bucket, row["key"], row["copy_id"])
    return None if head is not None and head.etag == state.replica_etag else row


def _still_extra(place: _Place, row: Row) -> Row | None:
    """A copy that was put before its record says so is none, nor is a marker where one is on its way."""
    store, copy_id = place.sites[row["site"]], row["copy_id"]
    if row["copy_is_marker"]:
        of_key = _records_of_key(place, row["key"])
        under_way = any(record.is_marker and _may_be(record.at(row["site"]), copy_id) for record in of_key)
        listed = () if under_way else versions_of(store, row["site_bucket"], row["key"])
        return row if any(each.version_id == copy_id for each in listed) else None
    head = store.head(row["site_bucket"], row["key"], copy_id)
    if head is None:
        return None
    owner = DataOwner.of(head.headers)
    if owner is None or owner.component is not Component.REPLICA:
        return row
    text = place.tables.get(entry_of(owner.bucket_uid, row["key"], owner.version_id))
    state = ReplicationRecord.from_json(text).at(row["site"]) if text is not None else None
    return None if _may_be(state, copy_id) else row


def _may_be(state: SiteState | None, copy_id: str) -> bool:
    """Whether that may be the copy of which the state speaks, or will speak when it is recorded."""
    if state is None:
        return False
    return state.status is Status.PENDING or (state.replica_version_id or NULL_VERSION) == copy_id


def _records_of_key(place: _Place, key: str) -> Iterator[ReplicationRecord]:
    prefix, after = entries_of_key(place.bucket_uid, key), None
    while page := place.tables.scan(prefix, after=after):
        yield from (ReplicationRecord.from_json(text) for _, text in page)
        after = page[-1][0]
