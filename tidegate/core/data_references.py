"""What refers to data in a location: placements, the trash, and copies that were begun and are not placed yet.

Data to which nothing refers is an orphan; a placement whose data is not there is damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from urllib.parse import unquote

from tidegate.core.copies import COPIES
from tidegate.core.pending_deletes import APPLICATION, Component, DataType, PendingDelete
from tidegate.core.placements import PLACEMENTS, RESERVED_METADATA, Placement
from tidegate.core.trash import TRASH, TrashRecord


class ReferenceKind(StrEnum):
    PLACEMENT = "placement"
    COPY = "copy"
    TRASH = "trash"


@dataclass(frozen=True, slots=True)
class Reference:
    """`entry` is where the record stands in the tables. Of a copy no more is known here than its data key."""

    data_key: str
    kind: ReferenceKind
    entry: str
    bucket: str = ""
    bucket_uid: str = ""
    key: str = ""
    version_id: str = ""


def placements_of(location: str) -> str:
    """What the text of a placement in the location has, and that of few others: most need not be read."""
    return f'"location":"{location}"'


def reference_in(entry: str, text: str, location: str) -> Reference | None:
    """What a record in the tables refers to in the location; None if nothing."""
    if entry.startswith(COPIES):
        where, _, data_key = entry.removeprefix(COPIES).partition("/")
        return Reference(data_key, ReferenceKind.COPY, entry) if where == location else None
    if placements_of(location) not in text:
        return None
    if entry.startswith(PLACEMENTS):
        kind, placed = ReferenceKind.PLACEMENT, Placement.from_json(text)
    elif entry.startswith(TRASH):
        kind, placed = ReferenceKind.TRASH, TrashRecord.from_json(text).placement
    else:
        return None
    if placed.location != location:
        return None
    version = (placed.bucket, placed.bucket_uid, placed.key, placed.version_id)
    return Reference(placed.data_key, kind, entry, *version)


@dataclass(frozen=True, slots=True)
class DataOwner:
    """Whose data it is, as its own metadata says."""

    component: Component
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Self | None:
        """None where the headers (names in lower case) are not those of Tidegate's data."""
        if metadata.get(RESERVED_METADATA + "application") != APPLICATION:
            return None
        try:
            component = Component(metadata.get(RESERVED_METADATA + "component", ""))
        except ValueError:
            return None
        pool, bucket, uid, key, version = (
            metadata.get(RESERVED_METADATA + name, "") for name in ("pool", "bucket", "bucket-uid", "key", "version")
        )
        return cls(component, pool, bucket, uid, unquote(key), version)

    def released(self, location: str, data_key: str, etag: str, *, now_ns: int) -> PendingDelete:
        """The message that has the orphan deleted."""
        return PendingDelete(
            component=self.component,
            data_type=DataType.LOCATION,
            pool=self.pool,
            bucket=self.bucket,
            bucket_uid=self.bucket_uid,
            key=self.key,
            version_id=self.version_id,
            sent_ns=now_ns,
            location=location,
            data_key=data_key,
            etag=etag,
            reason="orphan",
        )
