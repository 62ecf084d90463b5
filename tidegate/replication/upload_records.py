"""Keeps the uploads that are under way to sites, so that none is forgotten."""

from __future__ import annotations

import logging
import time

from tidegate.core.replication.records import open_entry
from tidegate.core.replication.uploads import UPLOADS, ReplicaUpload, entry_of
from tidegate.movement.pending_deletes import record_of
from tidegate.ports import Tables, Topics
from tidegate.table_pages import every

# A version that arrives leaves its entry behind for a moment only.
_ABANDONED_SECONDS = 3600.0

logger = logging.getLogger(__name__)


class UploadRecords:
    """`deletion_topic` gets the uploads that nobody wants any more. May be shared by threads."""

    def __init__(self, tables: Tables, topics: Topics, *, deletion_topic: str) -> None:
        self._tables = tables
        self._topics = topics
        self._deletion_topic = deletion_topic

    def of_version(self, site: str, bucket_uid: str, key: str, version_id: str) -> ReplicaUpload | None:
        text = self._tables.get(entry_of(site, bucket_uid, key, version_id))
        return ReplicaUpload.from_json(text) if text is not None else None

    def begin(self, upload: ReplicaUpload) -> None:
        self._tables.put(upload.entry, upload.to_json())

    def end(self, upload: ReplicaUpload) -> None:
        """It was completed, or is no more."""
        self._tables.delete(upload.entry)

    def release(self, upload: ReplicaUpload, reason: str) -> None:
        """Has it aborted, and then drops the reference to it."""
        self._topics.append(self._deletion_topic, [record_of(upload.released(reason, now_ns=time.time_ns()))])
        self.end(upload)

    def release_abandoned(self, *, now: float) -> int:
        """Of versions that are not on their way any more. Says how many."""
        found = [ReplicaUpload.from_json(text) for _, text in every(self._tables, UPLOADS)]
        abandoned = [upload for upload in found if self._is_abandoned(upload, now)]
        for upload in abandoned:
            self.release(upload, "the upload was abandoned")
        if abandoned:
            logger.warning("%d uploads to sites were abandoned, such as that of %s", len(abandoned), abandoned[0].key)
        return len(abandoned)

    def _is_abandoned(self, upload: ReplicaUpload, now: float) -> bool:
        if upload.begun_at > now - _ABANDONED_SECONDS:
            return False
        entry = open_entry(upload.site, upload.bucket_uid, upload.key, upload.version_id)
        return self._tables.get(entry) is None
