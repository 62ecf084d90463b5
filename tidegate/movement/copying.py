"""Copies the data of one version to a location, so that it can be repeated at any point.

What was written is never trusted because it was written: the source is compared with what was judged, its data with its
ETag, and what the location says that it has taken with what was sent. A copy that cannot be used goes to deletion.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, replace
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.copies import Copy, new_data_key
from tidegate.core.copy_tasks import CopyResult, CopyStatus, CopyTask
from tidegate.core.errors import Conflict, NotFound, Refused, Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.identities import Identity, holds, moment
from tidegate.core.locations import STANDARD, Location
from tidegate.core.placements import Placement, entry_of
from tidegate.core.records import Bucket
from tidegate.core.xml import DeleteEntry
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.part_upload import OpenUpload, md5_of, part_size
from tidegate.movement.source_reader import SourceReader
from tidegate.ports import Store, StoredHead, StoredPart, Tables


class CannotCopy(Exception):
    """The task ends here, and trying again changes nothing."""

    def __init__(self, result: CopyResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the data goes."""

    location: Location
    store: Store

    @property
    def bucket(self) -> str:
        return self.location.bucket


class Copier:
    """`part_bytes` is what is held in memory for each copy at a time, and `at_a_time` how many are. May be shared by
    threads; more of them than that write records while others move data."""

    def __init__(
        self,
        tables: Tables,
        progress: CopyProgress,
        stores: Stores,
        locations: KnownLocations,
        *,
        part_bytes: int,
        at_a_time: int,
        stop: Flag,
    ) -> None:
        self._tables = tables
        self._progress = progress
        self._stores = stores
        self._locations = locations
        self._part_bytes = part_bytes
        self._moving_data = threading.BoundedSemaphore(at_a_time)
        self._stop = stop

    def copy(self, task: CopyTask, location: Location) -> CopyStatus:
        """Raises `Unavailable` where it may succeed later, and `Stopped`; a later call goes on from there."""
        try:
            return self._copy(task, self._target(location))
        except CannotCopy as error:
            status = CopyStatus(task=task, result=error.result, reason=error.reason)
        except NotFound as error:
            status = CopyStatus(task=task, result=CopyResult.GONE, reason=str(error))
        except Conflict:
            status = CopyStatus(task=task, result=CopyResult.CHANGED, reason="it was replaced")
        except Refused as error:
            status = CopyStatus(task=task, result=CopyResult.REFUSED, reason=str(error))
        self.give_up(task, status.reason)
        return status

    def give_up(self, task: CopyTask, reason: str) -> None:
        """Has what was copied so far deleted."""
        copy = self._progress.of_task(task.id)
        if copy is not None:
            self._progress.release(copy, reason)

    def _target(self, location: Location) -> _Target:
        try:
            return _Target(location, self._locations.store(location.name))
        except NotFound:
            raise CannotCopy(CopyResult.REFUSED, f"there is no location {location.name}") from None

    def _copy(self, task: CopyTask, target: _Target) -> CopyStatus:
        bucket = existing(self._tables, task.bucket, task.bucket_uid)
        if bucket is None:
            raise CannotCopy(CopyResult.GONE, "the bucket is gone")
        source = self._stores.of_pool(bucket.pool)
        with SourceReader(
            source, task.bucket, task.key, task.version_id, may_go_on=lambda: not self._stop.is_set()
        ) as reader:
            check_identity(task, reader.head)
            if self._lies_there(task, reader.head):
                raise CannotCopy(CopyResult.CHANGED, f"it has the storage class {task.storage_class} already")
            copy, is_resumed = self._begun(task, bucket, target.location, reader.head)
            etag = self._finished(copy, target) if is_resumed else ""
            if not etag:
                with self._moving_data:
                    etag = self._transferred(copy, reader, target, is_resumed)
            self._check_reference(copy)
        return CopyStatus(
            task=task,
            result=CopyResult.COPIED,
            data_key=copy.data_key,
            data_etag=etag,
            etag=copy.etag,
            size=copy.size,
            last_modified=copy.last_modified,
        )

    def _lies_there(self, task: CopyTask, head: StoredHead) -> bool:
        """A version that was brought back from the trash shows the class of the location in which it lay before."""
        if head.headers.get("x-amz-storage-class", STANDARD) != task.storage_class:
            return False
        text = self._tables.get(entry_of(task.bucket_uid, task.key, task.version_id))
        placed = Placement.from_json(text).location if text is not None else ""
        return not task.location or placed == task.location

    def _begun(self, task: CopyTask, bucket: Bucket, location: Location, head: StoredHead) -> tuple[Copy, bool]:
        """The copy that an earlier attempt began and True, or a new one and False."""
        modified = task.last_modified or head.headers.get("last-modified", "")
        known = self._progress.of_task(task.id)
        if known is not None:
            if (known.location, known.etag, known.size) == (location.name, head.etag, head.size):
                return known, True
            self._progress.release(known, "the source has changed since the copy was begun")
        copy = Copy.begun(
            task,
            version_id=task.version_id or head.headers.get("x-amz-version-id", "") or NULL_VERSION,
            pool=bucket.pool,
            location=location.name,
            data_key=new_data_key(location.prefix, bucket.pool, bucket.uid, secrets.token_hex(16)),
            now=time.time(),
            etag=head.etag,
            size=head.size,
            last_modified=modified,
            part_bytes=part_size(self._part_bytes, head.size),
        )
        self._progress.begin(copy)
        return copy, False

    def _check_reference(self, copy: Copy) -> None:
        """Where two movers have the same task, as after a lost lease, the quicker one may have seen it through. What
        was written since then has no reference of its own."""
        if self._progress.of_data(copy.location, copy.data_key) is None:
            self._progress.release(copy, "another mover has copied it")
            raise CannotCopy(CopyResult.CHANGED, "another mover has copied it")

    @staticmethod
    def _finished(copy: Copy, target: _Target) -> str:
        """The ETag of the data if an earlier attempt has written all of it. Objects appear whole and verified; one that
        its location showed otherwise than it was written has no record any more."""
        head = target.store.head(target.bucket, copy.data_key)
        return head.etag if head is not None and head.size == copy.size else ""

    def _transferred(self, copy: Copy, reader: SourceReader, target: _Target, is_resumed: bool) -> str:
        is_verified = False
        if copy.size <= copy.part_bytes:
            data = b"".join(reader.pieces(copy.part_bytes))
            etag = target.store.put(target.bucket, copy.data_key, data, headers=_headers(copy, reader.head))
            is_verified = etag == md5_of(data)
        else:
            etag = self._upload(copy, reader, target, is_resumed)
        metrics.MOVEMENT_BYTES.labels(target.location.name).inc(copy.size)
        if is_verified:  # the store has hashed what it took, and found the same
            return etag
        head = target.store.head(target.bucket, copy.data_key)
        if head is None or (head.size, head.etag) != (copy.size, etag):
            found = "nothing" if head is None else f"{head.size} bytes, ETag {head.etag}"
            reason = f"location {copy.location} shows {found} instead of {copy.size} bytes, ETag {etag}"
            self._progress.release(copy, reason)
            raise Unavailable(reason)
        return etag

    def _upload(self, copy: Copy, reader: SourceReader, target: _Target, is_resumed: bool) -> str:
        copy, known = self._open_upload(copy, reader.head, target, is_resumed)
        upload = OpenUpload(target.store, target.bucket, copy.data_key, copy.upload_id)
        parts = upload.put(reader.pieces(copy.part_bytes), known)
        # Only now is it known that what was read is what the source promised.
        return target.store.complete_upload(target.bucket, copy.data_key, copy.upload_id, parts)

    def _open_upload(
        self, copy: Copy, head: StoredHead, target: _Target, is_resumed: bool
    ) -> tuple[Copy, dict[int, StoredPart]]:
        """The upload of an earlier attempt with its parts, or a new one."""
        upload_id = copy.upload_id or (_forgotten_upload(copy, target) if is_resumed else "")
        known = OpenUpload(target.store, target.bucket, copy.data_key, upload_id).parts() if upload_id else None
        if known is None:
            upload_id = target.store.start_upload(target.bucket, copy.data_key, headers=_headers(copy, head))
        if upload_id != copy.upload_id:
            copy = replace(copy, upload_id=upload_id)
            self._progress.update(copy)
        return copy, known or {}


def _forgotten_upload(copy: Copy, target: _Target) -> str:
    """One that was started right before an earlier attempt was killed."""
    page = target.store.list_uploads(target.bucket, prefix=copy.data_key)
    return next((upload.upload_id for upload in page.uploads if upload.key == copy.data_key), "")


def check_identity(task: CopyTask, head: StoredHead) -> None:
    """Raises `CannotCopy` if what the source shows is not what was judged. Some stores list another ETag than they
    show: then time and size decide."""
    found = Identity(head.etag, head.size, moment(head.headers.get("last-modified", "")))
    judged = DeleteEntry(
        task.key,
        size=task.size,
        last_modified=task.last_modified or None,
        unmodified_since=task.unmodified_since or None,
    )
    has_etag = not task.etag or bool(task.last_modified) or task.etag.strip('"') == head.etag
    if not (has_etag and holds(judged, found)):
        raise CannotCopy(CopyResult.CHANGED, "it was replaced")


def _headers(copy: Copy, source: StoredHead) -> dict[str, str]:
    content_type = source.headers.get("content-type", "")
    return {**copy.metadata, **({"content-type": content_type} if content_type else {})}
