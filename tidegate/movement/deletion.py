"""The second phase of deletion: the checks before data is deleted, in their order, and the delete.

Data is deleted if no record refers to it and if it is what the message says. There are no locks: a delete that is
repeated finds nothing, which is as good. Deletes in one location go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from tidegate.core.deletion_records import DeletionOutcome
from tidegate.core.errors import Conflict, NotFound, TidegateError, Unavailable
from tidegate.core.pending_deletes import Component, DataType, PendingDelete, is_owner, is_told_by_hash
from tidegate.core.records import Bucket
from tidegate.core.xml import MOST_DELETES, DeleteEntry
from tidegate.movement.in_use import NotYet, Owners
from tidegate.movement.pending_deletes import BelievedData
from tidegate.ports import Store, StoredHead, Tables

_GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
_CHANGED = "PreconditionFailed"


class LocationStores(Protocol):
    """The stores of the locations. All raise `NotFound` where there is no such location (any more)."""

    def store(self, name: str) -> Store: ...

    def bucket(self, name: str) -> str: ...

    def prefix(self, name: str) -> str: ...


class PoolStores(Protocol):
    def of_pool(self, pool: str) -> Store:
        """Through the gateway; `NotFound` where there is no such pool (any more)."""


@dataclass(frozen=True, slots=True)
class Result:
    """Without an outcome it failed, and may be tried again; or it was too early, where there is a `not_before`."""

    outcome: DeletionOutcome | None
    detail: str = ""
    not_before: float = 0.0


DELETED = Result(DeletionOutcome.DELETED)
_IN_USE = Result(DeletionOutcome.IN_USE, "a record refers to the data")
_NOT_THERE = Result(DeletionOutcome.NOT_THERE, "there is no such data")
_ANOTHER_OWNER = Result(DeletionOutcome.NOT_MATCHED, "the stored data is another owner's")


@dataclass(frozen=True, slots=True)
class _Ready:
    """Data in a location that passed the checks: its number in the batch, and what to ask the store for."""

    number: int
    entry: DeleteEntry


class Deleter:
    """May be shared by threads."""

    def __init__(
        self, tables: Tables, pools: PoolStores, locations: LocationStores, owners: Owners, believed: BelievedData
    ) -> None:
        self._tables = tables
        self._pools = pools
        self._locations = locations
        self._owners = owners
        self._believed = believed

    def results(self, pendings: Sequence[PendingDelete]) -> list[Result]:
        """What became of each. After a failure in a location, the batch does not try it again."""
        found: dict[int, Result] = {}
        ready: dict[str, dict[str, _Ready]] = {}
        down: dict[str, Result] = {}
        for number, pending in enumerate(pendings):
            location = pending.location
            if location in down:
                found[number] = down[location]
                continue
            if pending.data_key in ready.get(location, {}):  # the same once more: it must find what became of the first
                self._delete(location, ready.pop(location), found)
            try:
                checked = self._checked(pending)
            except TidegateError as error:
                found[number] = Result(None, str(error), error.not_before if isinstance(error, NotYet) else 0.0)
                if location and isinstance(error, Unavailable):
                    down[location] = found[number]
                continue
            if isinstance(checked, Result):
                found[number] = checked
            else:
                ready.setdefault(location, {})[pending.data_key] = _Ready(number, checked)
        for location, entries in ready.items():
            self._delete(location, entries, found)
        for number, pending in enumerate(pendings):
            if found[number].outcome is not None:
                self._believed.remove(pending)
        return [found[number] for number in range(len(pendings))]

    def _checked(self, pending: PendingDelete) -> Result | DeleteEntry:
        """How it ended, or what is to be deleted in its location."""
        if self._owners.in_use(pending):
            return _IN_USE
        if pending.data_type is DataType.STORE:
            return self._in_store(pending)
        if pending.component is Component.REPLICA:
            return self._at_site(pending)
        return self._in_location(pending)

    # --- in a pool's own store -------------------------------------------------------------------

    def _in_store(self, pending: PendingDelete) -> Result:
        """Uploads there are those of clients, who may go on with them; and nobody else could say that they will not."""
        if pending.upload_id:
            return Result(DeletionOutcome.NOT_MATCHED, "an upload in a pool's own store is its client's")
        text = self._tables.get(Bucket.PREFIX + pending.bucket)
        if text is None:
            return Result(DeletionOutcome.NOT_THERE, f"there is no bucket {pending.bucket}")
        bucket = Bucket.from_json(text)
        if (bucket.uid, bucket.pool) != (pending.bucket_uid, pending.pool):
            return Result(DeletionOutcome.NOT_MATCHED, f"the bucket {pending.bucket} is not the one that is meant")
        try:
            store = self._pools.of_pool(pending.pool)
            is_deleted = store.delete_original(pending.bucket, pending.key, pending.version_id)
            return DELETED if is_deleted else _IN_USE
        except NotFound as error:
            return Result(DeletionOutcome.NOT_THERE, str(error))

    # --- in a location ---------------------------------------------------------------------------

    def _in_location(self, pending: PendingDelete) -> Result | DeleteEntry:
        store, bucket = self._location(pending.location)
        if not pending.data_key.startswith(self._locations.prefix(pending.location)):
            return Result(DeletionOutcome.NOT_MATCHED, "the data does not lie under the prefix of the location")
        is_aborted = False
        if pending.upload_id:
            head = store.head(bucket, pending.data_key)
            if head is not None and not is_owner(pending, dict(head.headers)):
                return _ANOTHER_OWNER
            is_aborted = _abort(store, bucket, pending)
        head = store.head(bucket, pending.data_key)
        if head is None:
            return DELETED if is_aborted or _abort_forgotten(store, bucket, pending) else _NOT_THERE
        if pending not in self._believed:
            if not is_owner(pending, dict(head.headers)):
                return _ANOTHER_OWNER
            if is_told_by_hash(pending, dict(head.headers)) and self._owners.in_use_under_any_key(pending):
                return _IN_USE
        if pending.etag and pending.etag.strip('"') != head.etag:
            detail = f"the stored data has the ETag {head.etag}, not {pending.etag}"
            return Result(DeletionOutcome.NOT_MATCHED, detail)
        return _entry(pending.data_key, head)

    def _at_site(self, pending: PendingDelete) -> Result:
        """A copy that replication put there, which is one version among others; or a delete marker, which shows nothing
        of itself, and is known by its id alone."""
        if pending.data_key != pending.key:
            return Result(DeletionOutcome.NOT_MATCHED, "a copy at a site has the key of its version")
        store, _ = self._location(pending.location)
        if pending.upload_id:
            return DELETED if _abort(store, pending.data_bucket, pending) else _NOT_THERE
        head = store.head(pending.data_bucket, pending.data_key, pending.data_version_id)
        if head is not None and not is_owner(pending, dict(head.headers)):
            return _ANOTHER_OWNER
        try:
            store.delete(pending.data_bucket, DeleteEntry(pending.data_key, pending.data_version_id))
        except NotFound:
            return _NOT_THERE
        return DELETED

    def _location(self, name: str) -> tuple[Store, str]:
        try:
            return self._locations.store(name), self._locations.bucket(name)
        except NotFound:
            raise Unavailable(
                f"there is no location {name}: make it again to have its data deleted, or discard the dead letter"
            ) from None

    def _delete(self, location: str, ready: dict[str, _Ready], found: dict[int, Result]) -> None:
        try:
            store, bucket = self._location(location)
            waiting = list(ready.values())
            for start in range(0, len(waiting), MOST_DELETES):
                part = waiting[start : start + MOST_DELETES]
                found |= _alone(store, bucket, part[0]) if len(part) == 1 else _together(store, bucket, part)
        except TidegateError as error:
            for one in ready.values():
                found.setdefault(one.number, Result(None, str(error)))


def _abort(store: Store, bucket: str, pending: PendingDelete) -> bool:
    try:
        store.abort_upload(bucket, pending.data_key, pending.upload_id)
        return True
    except NotFound:  # it may have been completed: then the object is there
        return False


def _abort_forgotten(store: Store, bucket: str, pending: PendingDelete) -> bool:
    """Uploads whose ids nobody knows: a data mover was killed right after it began one."""
    page = store.list_uploads(bucket, prefix=pending.data_key)
    uploads = [replace(pending, upload_id=each.upload_id) for each in page.uploads if each.key == pending.data_key]
    return bool([each for each in uploads if _abort(store, bucket, each)])


def _entry(data_key: str, head: StoredHead) -> DeleteEntry:
    """A version is named by its id, which is never used again. Otherwise the ETag says what is meant."""
    version_id = head.headers.get("x-amz-version-id", "")
    if version_id:
        return DeleteEntry(data_key, version_id)
    return DeleteEntry(data_key, etag=f'"{head.etag}"' if head.etag else None)


def _alone(store: Store, bucket: str, one: _Ready) -> dict[int, Result]:
    try:
        store.delete(bucket, one.entry)
        return {one.number: DELETED}
    except NotFound:
        return {one.number: _NOT_THERE}
    except Conflict as error:
        return {one.number: Result(DeletionOutcome.NOT_MATCHED, str(error))}


def _together(store: Store, bucket: str, part: Sequence[_Ready]) -> dict[int, Result]:
    """A key of which the answer says nothing has failed."""
    numbers = {one.entry.key: one.number for one in part}
    found = dict.fromkeys(numbers.values(), Result(None, "the store did not say what became of it"))
    answer = store.delete_many(bucket, [one.entry for one in part])
    for done in answer.deleted:
        if done.key in numbers:
            found[numbers[done.key]] = DELETED
    for failure in answer.failures:
        if failure.key not in numbers:
            continue
        detail = f"{failure.code}: {failure.message}"
        if failure.code in _GONE:
            result = _NOT_THERE
        elif failure.code == _CHANGED:
            result = Result(DeletionOutcome.NOT_MATCHED, detail)
        else:
            result = Result(None, detail)
        found[numbers[failure.key]] = result
    return found
