"""The trash: what was deleted for good and can be brought back until its grace is over.

Data is copied to the trash location, then a record is written, then the version is deleted. The record has all that the
version is brought back with. While it stands, it refers to the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

from tidegate.core.codec import JsonRecord
from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.placements import Placement

# Entries of the tables: `tr:UID/KEY<NUL>VERSION<NUL>ID`, in S3's order of keys.
TRASH = "tr:"
_END = "\0"


@dataclass(frozen=True, slots=True)
class TrashRecord(JsonRecord):
    """`id` is that of the task that deletes the version: a task that comes again finds what it has kept. `placement` is
    the version as it was, with its data in the trash. It was deleted at `deleted_ns` by the pass `pass_id` (empty: by a
    purge), and is kept until `until` (Unix time). While a version is being brought back its record `is_claimed`: then
    its data outlives the grace."""

    id: str
    placement: Placement
    deleted_ns: int
    until: float
    pass_id: str = ""
    is_claimed: bool = False

    @property
    def entry(self) -> str:
        """Where it stands in the tables."""
        return entry_of(self.placement.bucket_uid, self.placement.key, self.placement.version_id, self.id)

    @property
    def name(self) -> str:
        """What tells it from the other records of its key."""
        return f"{self.placement.version_id}{_END}{self.id}"

    def holds(self, location: str, data_key: str) -> bool:
        return (self.placement.location, self.placement.data_key) == (location, data_key)

    def pending(self, *, sent_ns: int, not_before: float, reason: str) -> PendingDelete:
        """The message that has the data deleted."""
        placement = self.placement
        return PendingDelete(
            component=Component.TRASH,
            data_type=DataType.LOCATION,
            pool=placement.pool,
            bucket=placement.bucket,
            bucket_uid=placement.bucket_uid,
            key=placement.key,
            version_id=placement.version_id,
            sent_ns=sent_ns,
            location=placement.location,
            data_key=placement.data_key,
            etag=placement.data_etag,
            not_before=not_before,
            reason=reason,
        )

    def restored(self, record_id: str, *, now_ns: int) -> Placement:
        """The record with which the version is there again: without a stub at first, and so not the current one."""
        return replace(self.placement, id=record_id, moved_ns=now_ns)


def entries_of_bucket(bucket_uid: str, prefix: str = "") -> str:
    """The beginning of the entries of all keys with that prefix."""
    return f"{TRASH}{bucket_uid}/{prefix}"


def entries_of_key(bucket_uid: str, key: str) -> str:
    """The beginning of all entries of a key, and of no other."""
    return f"{TRASH}{bucket_uid}/{key}{_END}"


def entry_of(bucket_uid: str, key: str, version_id: str, record_id: str) -> str:
    return f"{entries_of_key(bucket_uid, key)}{version_id or NULL_VERSION}{_END}{record_id}"


def in_trash(version: Placement, *, location: str, data_key: str, data_etag: str) -> Placement:
    """The version as a record of the trash keeps it. What it has in the store is on its way to deletion."""
    return replace(
        version,
        location=location,
        data_key=data_key,
        data_etag=data_etag,
        is_current=False,
        has_stub=False,
        stub_id="",
        has_original=False,
    )


def destroyed_version(task: ObjectTask, versioning: Versioning) -> str | None:
    """The id of the version whose data the task destroys for good ("" for the only one in a bucket without versioning);
    None if it destroys none. A delete marker that is added while versioning is suspended takes the place of the null
    version, wherever that stands."""
    if task.effect is Effect.DELETE:
        return task.version_id
    if task.effect is not Effect.EXPIRE or versioning is Versioning.ENABLED:
        return None
    return NULL_VERSION if versioning is Versioning.SUSPENDED else ""


def in_order_of_restoring(records: Iterable[TrashRecord]) -> list[TrashRecord]:
    """Those of one key, the newest first: a version that is brought back then has its place below the newer ones. Of
    several that had the same id in their turn, only the one that was deleted last comes back."""
    found = sorted(records, key=lambda each: (each.placement.last_modified, each.deleted_ns), reverse=True)
    of_moments = groupby(found, lambda each: each.placement.last_modified)
    return [record for _, of_moment in of_moments for record in _by_neighbours(list(of_moment))]


def _by_neighbours(records: Sequence[TrashRecord]) -> Sequence[TrashRecord]:
    """Times have whole seconds. Among versions of one second, the newer ones are told by what was next to them."""
    places = {record.placement.version_id: place for place, record in enumerate(records)}
    order = TopologicalSorter(dict.fromkeys(range(len(records)), ()))
    for place, record in enumerate(records):
        above, below = places.get(record.placement.above), places.get(record.placement.below)
        if above is not None:
            order.add(place, above)
        if below is not None:
            order.add(below, place)
    try:
        return [records[place] for place in order.static_order()]
    except CycleError:  # versions that had the same id in their turn tell nothing certain
        return records
