"""Uploads in parts that are under way to a site: `ru:SITE/UID/KEY<NUL>VERSION` in the tables.

The entry lets a later attempt go on with the upload, and leads to it when nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.codec import JsonRecord
from tidegate.core.events import NULL_VERSION
from tidegate.core.pending_deletes import Component, DataType, PendingDelete

UPLOADS = "ru:"
_END_OF_KEY = "\0"


@dataclass(frozen=True, slots=True)
class ReplicaUpload(JsonRecord):
    """`site_bucket` is the bucket at the site; `etag` that of the source. `begun_at` is a Unix time."""

    site: str
    site_bucket: str
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    upload_id: str
    part_bytes: int
    etag: str
    begun_at: float

    @property
    def entry(self) -> str:
        return entry_of(self.site, self.bucket_uid, self.key, self.version_id)

    def released(self, reason: str, *, now_ns: int) -> PendingDelete:
        """The message that has it aborted."""
        return PendingDelete(
            component=Component.REPLICA,
            data_type=DataType.LOCATION,
            pool=self.pool,
            bucket=self.bucket,
            bucket_uid=self.bucket_uid,
            key=self.key,
            version_id=self.version_id,
            location=self.site,
            data_key=self.key,
            data_bucket=self.site_bucket,
            upload_id=self.upload_id,
            sent_ns=now_ns,
            reason=reason,
        )


def entry_of(site: str, bucket_uid: str, key: str, version_id: str) -> str:
    return f"{UPLOADS}{site}/{bucket_uid}/{key}{_END_OF_KEY}{version_id or NULL_VERSION}"
