"""DELETE where objects may have been moved: a store has something else under a version's id than the client means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.identities import holds
from tidegate.core.placements import Placement, of_version
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import Deleted, DeleteEntry
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.preconditions import identity
from tidegate.gateway.operations.delete_conditions import check_meant
from tidegate.gateway.operations.stored_objects import stat
from tidegate.gateway.placements import records
from tidegate.gateway.placements.reads import is_hidden
from tidegate.gateway.placements.settling import settle
from tidegate.gateway.placements.stubs import delete_stored
from tidegate.gateway.requests.directory import BucketView
from tidegate.gateway.requests.forwarding import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.changes.change import Change
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_MATCH = b"if-match"


async def delete_object(exchange: Exchange, admission: Admission) -> None:
    """A single delete. One that names a version which was moved is carried out here; others go to the store, and the
    records follow."""
    gateway, key, version_id = exchange.gateway, admission.object_key, admission.version_id
    view = await gateway.directory.current_bucket(admission.bucket_name)
    assert view is not None and admission.bucket is not None
    admission.pool = await gateway.backends.awake(admission.pool)
    if version_id or _MATCH in admission.headers:
        # A version may be moved until the key is locked.
        await exchange.change.lock([key])
    if _MATCH in admission.headers:
        await _check_etag(exchange, admission)
    found = await records.of_key(gateway, admission.bucket.uid, key)
    if is_hidden(found, version_id):
        exchange.answer(204, {"x-amz-version-id": version_id}, b"")
        return
    if not version_id or of_version(found, version_id) is None:
        await exchange.proceed()
        return
    await check_meant(exchange, admission)
    exchange.change.open_intent(admission)
    if not await delete_version(gateway, admission, view, key, version_id):
        raise Unavailable("the version was changed by somebody else")
    event = event_builder.event(exchange, EventKind.DELETE, version_id=version_id)
    exchange.change.unlock()
    await exchange.change.log([event])
    exchange.change.close_intent()
    exchange.answer(204, {"x-amz-version-id": version_id}, b"")


async def _check_etag(exchange: Exchange, admission: Admission) -> None:
    """The ETag, which a store would compare with that of the stub, is compared here, and left out of what follows."""
    key = admission.object_key
    found = await stat(exchange.gateway, admission.pool, admission.bucket_name, key, admission.version_id)
    entry = DeleteEntry(key, etag=admission.headers[_MATCH].decode("latin-1"))
    if found is None or not holds(entry, identity(found)):
        raise S3Error("PreconditionFailed")
    admission.headers = {name: value for name, value in admission.headers.items() if name != _MATCH}


async def delete_version(gateway: Gateway, admission: Admission, view: BucketView, key: str, version_id: str) -> bool:
    """Deletes a version by its id if it was moved, with all that is left of it in the store. The key is locked."""
    record = of_version(await records.of_key(gateway, view.bucket.uid, key), version_id)
    if record is None:
        return False
    await delete_stored(gateway, admission.pool, record)
    if record.has_original or not record.stub_id:
        path = object_path(view.bucket.name, key)
        reply = await ask_signed(gateway, admission.pool, b"DELETE", path, version_query(record.version_id))
        if reply.head.status not in (200, 204, 404):
            raise Unavailable(f"the backend does not delete a version ({reply.head.status})")
    await settle(gateway, admission.pool, view, key, deleted=version_id)
    return True


async def delete_moved(
    exchange: Exchange, change: Change, admission: Admission, view: BucketView, entries: Sequence[DeleteEntry]
) -> tuple[list[Deleted], list[Event], list[DeleteEntry]]:
    """Of the entries of a DeleteObjects those that name versions which were moved: carried out one by one. Gives what
    was deleted, the events of that, and the entries that are left to the store. The keys are locked."""
    gateway = exchange.gateway
    named = [entry for entry in entries if entry.version_id]
    moved = await records.of_keys(gateway, view.bucket.uid, {entry.key for entry in named})
    deleted: list[Deleted] = []
    events: list[Event] = []
    left: list[DeleteEntry] = []
    for entry in entries:
        found: Sequence[Placement] = moved.get(entry.key, ())
        if is_hidden(found, entry.version_id):
            deleted.append(Deleted(entry.key, entry.version_id))
        elif entry.version_id and of_version(found, entry.version_id) is not None:
            if await delete_version(gateway, admission, view, entry.key, entry.version_id):
                deleted.append(Deleted(entry.key, entry.version_id))
                events.append(
                    event_builder.event(
                        exchange, EventKind.DELETE, key=entry.key, change=change, version_id=entry.version_id
                    )
                )
        else:
            left.append(entry)
    return deleted, events, left


async def settle_deleted(gateway: Gateway, admission: Admission, view: BucketView, deleted: Sequence[Deleted]) -> None:
    """After the store has deleted others."""
    moved = await records.of_keys(gateway, view.bucket.uid, {entry.key for entry in deleted})
    for key in moved:
        await settle(gateway, admission.pool, view, key)
