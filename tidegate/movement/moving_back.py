"""Moves the data of one version from its location back into the pool's own store."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from threading import Event as Flag

from tidegate.core.copy_tasks import CopyResult, CopyStatus, CopyTask
from tidegate.core.errors import Conflict, NotFound, Refused, Unavailable
from tidegate.core.identities import plain_md5
from tidegate.core.placements import Placement, entry_of
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.movement.copying import CannotCopy, check_identity
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.source_reader import Stopped
from tidegate.ports import ObjectStream, Tables


class BackMover:
    """The gateway takes the data and changes the record in one step; there is nothing to settle. May be shared by
    threads."""

    def __init__(self, tables: Tables, stores: Stores, locations: KnownLocations, *, stop: Flag) -> None:
        self._tables = tables
        self._stores = stores
        self._locations = locations
        self._stop = stop

    def move(self, task: CopyTask) -> CopyStatus:
        """Raises `Unavailable` where it may succeed later, and `Stopped`."""
        try:
            return self._move(task)
        except CannotCopy as error:
            return CopyStatus(task=task, result=error.result, reason=error.reason)
        except NotFound as error:
            return CopyStatus(task=task, result=CopyResult.GONE, reason=str(error))
        except Conflict:
            return CopyStatus(task=task, result=CopyResult.CHANGED, reason="it was replaced, or moved elsewhere")
        except Refused as error:
            return CopyStatus(task=task, result=CopyResult.REFUSED, reason=str(error))

    def _move(self, task: CopyTask) -> CopyStatus:
        bucket = existing(self._tables, task.bucket, task.bucket_uid)
        if bucket is None:
            raise CannotCopy(CopyResult.GONE, "the bucket is gone")
        store = self._stores.of_pool(bucket.pool)
        head = store.head(task.bucket, task.key, task.version_id)
        if head is None:
            raise CannotCopy(CopyResult.GONE, "it is gone")
        check_identity(task, head)
        version_id = task.version_id or head.headers.get("x-amz-version-id", "")
        text = self._tables.get(entry_of(task.bucket_uid, task.key, version_id))
        placement = Placement.from_json(text) if text is not None else None
        if placement is None or not placement.location:
            raise CannotCopy(CopyResult.CHANGED, "it lies in the pool's own store")
        location = self._locations.get(placement.location)
        data_key, size, etag = placement.data_key, placement.size, placement.data_etag
        with self._locations.store(location.name).open(location.bucket, data_key, if_match=etag) as stream:
            chunks = self._verified(stream, size, plain_md5(head.headers))
            store.move_back(task.bucket, task.key, task.version_id, data_key, size, chunks)
        return CopyStatus(
            task=task, result=CopyResult.COPIED, etag=head.etag, size=placement.size, last_modified=task.last_modified
        )

    def _verified(self, stream: ObjectStream, size: int, expected: str) -> Iterator[bytes]:
        """The data. Its last piece is held back until all of it is known to be right: a body that is broken off changes
        nothing."""
        digest, received, held = md5(usedforsecurity=False), 0, b""
        for chunk in stream.chunks:
            if self._stop.is_set():
                raise Stopped
            if held:
                yield held
            held = chunk
            digest.update(chunk)
            received += len(chunk)
        if received != size or (expected and digest.hexdigest() != expected):
            raise Unavailable("the data in the location is not what the record says")
        if held:
            yield held
