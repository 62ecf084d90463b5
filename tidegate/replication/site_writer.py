"""Puts versions at one site: data with its metadata and tags, delete markers, and tags that were changed later.

The data is verified end to end: what is read against the ETag of the source, what is sent by its MD5, which the site
checks, and what the site shows then against what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Event as Flag
from urllib.parse import urlencode

from tidegate import metrics
from tidegate.core.errors import NotFound, Refused, Unavailable
from tidegate.core.pending_deletes import Component, owner_metadata
from tidegate.core.placements import RESERVED_METADATA
from tidegate.core.replication.records import ReplicationRecord
from tidegate.core.replication.replicas import COMPONENT_HEADER, is_shown_as_replica_of
from tidegate.core.replication.uploads import ReplicaUpload
from tidegate.movement.deletion import PoolStores
from tidegate.movement.part_upload import OpenUpload, part_size
from tidegate.movement.source_reader import SourceReader
from tidegate.ports import Store, StoredHead, StoredPart, StoredVersion
from tidegate.replication.destinations import why_unfit
from tidegate.replication.site_survey import NO_IDS
from tidegate.replication.upload_records import UploadRecords

_METADATA = "x-amz-meta-"
_CONTENT = (
    *("cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"),
    "x-amz-website-redirect-location",
)
# A bucket is asked again after so long whether it has versioning.
_REMEMBERED_SECONDS = 60.0


class SourceGone(Exception):
    """The version is not at the source any more."""


class SourceIsReplica(Exception):
    """The version came from another site."""


class SiteWriter:
    """`part_bytes` is what is held in memory for each version at a time. `stores` has the sources; the site's store is
    given with each call. May be shared by threads."""

    def __init__(self, site: str, stores: PoolStores, uploads: UploadRecords, *, part_bytes: int, stop: Flag) -> None:
        self._site = site
        self._stores = stores
        self._uploads = uploads
        self._part_bytes = part_bytes
        self._stop = stop
        # When each bucket was last seen to have versioning.
        self._versioned_at: dict[str, float] = {}

    def put(self, store: Store, bucket: str, record: ReplicationRecord) -> StoredVersion:
        """Raises `SourceGone` and `SourceIsReplica`, `Stopped` when the process is to end, and `Refused` if the bucket
        keeps no versions."""
        if record.is_marker:
            self._check_versioning(store, bucket)
            # A store keeps no metadata of a marker. A gateway logs whose it is, and does not replicate it on.
            stored = store.put_marker(bucket, record.key, headers={COMPONENT_HEADER: Component.REPLICA.value})
        else:
            stored = self._put_object(store, bucket, record)
        if stored.version_id in NO_IDS:
            self._versioned_at.pop(bucket, None)
            raise self._refusal(bucket, "Its answer names no version.")
        return stored

    def _check_versioning(self, store: Store, bucket: str) -> None:
        """What leaves a delete marker in a bucket with versioning deletes the object in one without."""
        now = time.monotonic()
        if self._versioned_at.get(bucket, float("-inf")) > now - _REMEMBERED_SECONDS:
            return
        why = why_unfit(store, bucket)
        if why:
            raise self._refusal(bucket, why)
        self._versioned_at[bucket] = now

    def _refusal(self, bucket: str, why: str) -> Refused:
        return Refused(
            f"bucket {bucket} at site {self._site} cannot take versions: {why} "
            "Enable versioning there, and try once more: tidegate replication failed retry"
        )

    def _put_object(self, store: Store, bucket: str, record: ReplicationRecord) -> StoredVersion:
        source = self._source(record)
        with self._reader(source, record) as reader:
            if record.is_found and is_shown_as_replica_of(reader.head.headers, record.key):
                raise SourceIsReplica
            headers = _headers(record, reader.head, self._tags(source, record, reader.head))
            if reader.head.size <= self._part_bytes:
                data = b"".join(reader.pieces(self._part_bytes))
                stored = store.put_version(bucket, record.key, data, headers=headers)
            else:
                stored = self._upload(store, bucket, record, reader, headers)
            metrics.REPLICATION_BYTES.labels(self._site).inc(reader.head.size)
        return stored

    def put_tags(self, store: Store, bucket: str, record: ReplicationRecord, copy_id: str) -> None:
        """Those that the version has now. Raises `SourceGone`."""
        try:
            tags = self._source(record).tags(record.bucket, record.key, record.version_id)
        except NotFound:
            raise SourceGone from None
        store.put_tags(bucket, record.key, copy_id, tags)

    def give_up(self, record: ReplicationRecord, reason: str) -> None:
        """Has the upload aborted that was begun."""
        upload = self._uploads.of_version(self._site, record.bucket_uid, record.key, record.version_id)
        if upload is not None:
            self._uploads.release(upload, reason)

    @contextmanager
    def _reader(self, source: Store, record: ReplicationRecord) -> Iterator[SourceReader]:
        version = (record.bucket, record.key, record.version_id)
        with ExitStack() as opened:
            try:
                reader = opened.enter_context(SourceReader(source, *version, may_go_on=lambda: not self._stop.is_set()))
            except NotFound:
                raise SourceGone from None
            yield reader

    def _source(self, record: ReplicationRecord) -> Store:
        try:
            return self._stores.of_pool(record.pool)
        except NotFound:
            raise SourceGone from None

    @staticmethod
    def _tags(source: Store, record: ReplicationRecord, head: StoredHead) -> str:
        if head.headers.get("x-amz-tagging-count", "0") == "0":
            return ""
        return urlencode(source.tags(record.bucket, record.key, record.version_id))

    # --- in parts --------------------------------------------------------------------------------

    def _upload(
        self, store: Store, bucket: str, record: ReplicationRecord, reader: SourceReader, headers: Mapping[str, str]
    ) -> StoredVersion:
        upload, known = self._open_upload(store, bucket, record, reader.head, headers)
        parts = OpenUpload(store, bucket, record.key, upload.upload_id).put(reader.pieces(upload.part_bytes), known)
        # Only now is it known that what was read is what the source promised.
        stored = store.complete_version(bucket, record.key, upload.upload_id, parts)
        self._uploads.end(upload)
        head = store.head(bucket, record.key, stored.version_id)
        if head is None or (head.size, head.etag) != (reader.head.size, stored.etag):
            found = "nothing" if head is None else f"{head.size} bytes, ETag {head.etag}"
            raise Unavailable(f"site {self._site} shows {found} instead of {reader.head.size} bytes")
        return StoredVersion(stored.version_id or head.headers.get("x-amz-version-id", ""), stored.etag)

    def _open_upload(
        self, store: Store, bucket: str, record: ReplicationRecord, head: StoredHead, headers: Mapping[str, str]
    ) -> tuple[ReplicaUpload, dict[int, StoredPart]]:
        """The upload of an earlier attempt with its parts, or a new one."""
        begun = self._uploads.of_version(self._site, record.bucket_uid, record.key, record.version_id)
        if begun is not None:
            known = None
            if (begun.site_bucket, begun.etag) == (bucket, head.etag):
                known = OpenUpload(store, bucket, record.key, begun.upload_id).parts()
            if known is not None:
                return begun, known
            self._uploads.release(begun, "it cannot be gone on with")
        upload = ReplicaUpload(
            site=self._site,
            site_bucket=bucket,
            pool=record.pool,
            bucket=record.bucket,
            bucket_uid=record.bucket_uid,
            key=record.key,
            version_id=record.version_id,
            upload_id=store.start_upload(bucket, record.key, headers=headers),
            part_bytes=part_size(self._part_bytes, head.size),
            etag=head.etag,
            begun_at=time.time(),
        )
        self._uploads.begin(upload)
        return upload, {}


def _headers(record: ReplicationRecord, source: StoredHead, tags: str) -> dict[str, str]:
    """What a copy is stored with: all that the client gave, and whose copy it is."""
    found = {name: source.headers[name] for name in _CONTENT if source.headers.get(name)}
    found |= {name: value for name, value in source.headers.items() if _is_clients(name)}
    if tags:
        found["x-amz-tagging"] = tags
    return found | owner_metadata(
        Component.REPLICA,
        pool=record.pool,
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
    )


def _is_clients(name: str) -> bool:
    return name.startswith(_METADATA) and not name.startswith(RESERVED_METADATA)
