"""Copies that were begun: the record that refers to data in a location until a placement does, or nobody.

The record is written before any data, so that no data lies in a location without a reference; it goes when the
placement stands, or when the data was handed to deletion. A second entry leads from a task to its copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidegate.core.codec import JsonRecord
from tidegate.core.copy_tasks import CopyTask
from tidegate.core.pending_deletes import Component, DataType, PendingDelete, owner_metadata

# Entries of the tables: `cp:LOCATION/DATA_KEY`, and `ct:TASK` which holds the former's key.
COPIES = "cp:"
OF_TASK = "ct:"


@dataclass(frozen=True, slots=True)
class Copy(JsonRecord):
    """`pool` to `version_id` say whose data it is; `etag`, `size` and `last_modified` what the source showed.
    `upload_id` names the upload that is under way, if it is copied in parts of `part_bytes`."""

    location: str
    data_key: str
    task_id: str
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    etag: str
    size: int
    last_modified: str
    begun_at: float
    part_bytes: int
    upload_id: str = ""

    @classmethod
    def begun(
        cls, task: CopyTask, *, version_id: str, pool: str, location: str, data_key: str, now: float, **source: object
    ) -> Self:
        return cls(
            location=location,
            data_key=data_key,
            task_id=task.id,
            pool=pool,
            bucket=task.bucket,
            bucket_uid=task.bucket_uid,
            key=task.key,
            version_id=version_id,
            begun_at=now,
            **source,  # type: ignore[arg-type]
        )

    @property
    def entry(self) -> str:
        return entry_of(self.location, self.data_key)

    @property
    def metadata(self) -> dict[str, str]:
        """The headers with which the data says whose it is."""
        return owner_metadata(
            Component.PLACEMENT,
            pool=self.pool,
            bucket=self.bucket,
            bucket_uid=self.bucket_uid,
            key=self.key,
            version_id=self.version_id,
        )

    def released(self, reason: str, *, now_ns: int) -> PendingDelete:
        """The message that has the data deleted."""
        return PendingDelete(
            component=Component.PLACEMENT,
            data_type=DataType.LOCATION,
            pool=self.pool,
            bucket=self.bucket,
            bucket_uid=self.bucket_uid,
            key=self.key,
            version_id=self.version_id,
            location=self.location,
            data_key=self.data_key,
            upload_id=self.upload_id,
            sent_ns=now_ns,
            reason=reason,
        )


def entry_of(location: str, data_key: str) -> str:
    return f"{COPIES}{location}/{data_key}"


def new_data_key(prefix: str, pool: str, bucket_uid: str, token: str) -> str:
    """Where data lies in a location; `token` is never used twice."""
    return f"{prefix}{pool}/{bucket_uid}/{token}"
