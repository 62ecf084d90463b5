"""What workers ask of a gateway when data has moved: the record first, then the stub, with the key locked.

Each is safe to repeat. A version that is not the one that was copied any more is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from tidegate.core import codec
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.identities import Identity, holds
from tidegate.core.key_versions import would_uncover
from tidegate.core.listings import ListedVersion
from tidegate.core.placements import Placement, is_original, of_version
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import DeleteEntry
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.key_versions import stored_versions
from tidegate.gateway.placements import records
from tidegate.gateway.placements.settling import make_stub, replaced_etag, settle, stub_names, would_replace_null
from tidegate.gateway.placements.stored_version import (
    NotPlaced,
    describe,
    identity_of,
    listed_version,
    parts_of,
    stored_head,
    version_id_of,
)
from tidegate.gateway.placements.stubs import delete_stored, delete_version
from tidegate.gateway.requests.directory import BucketView
from tidegate.gateway.requests.forwarding import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_JSON = {"Content-Type": "application/json"}
_LOCKED = (b"x-amz-object-lock-mode", b"x-amz-object-lock-legal-hold")
_UNCOVERS = "the null version is current, and without this one the store would take another for it"


class PlaceRequest(Struct, frozen=True):
    """Where the data of a version lies now, and the identity of what was copied; what is empty is not compared."""

    location: str
    data_key: str
    storage_class: str
    data_etag: str = ""
    etag: str = ""
    size: int | None = None
    last_modified: str = ""
    request_id: str = ""


def read_request(body: bytes) -> PlaceRequest:
    try:
        request = codec.decoded(body, PlaceRequest, "request to place an object")
    except InvalidInput as error:
        raise S3Error("InvalidRequest", str(error)) from None
    if not request.location or not request.data_key:
        raise S3Error("InvalidRequest", "a location and a data key are needed")
    return request


async def place(exchange: Exchange, admission: Admission) -> None:
    gateway, request = exchange.gateway, exchange.parsed
    view = await current_bucket(exchange, admission)
    if not view.has_placements:
        await records.mark_bucket(gateway, view.bucket.uid)
    admission.has_placements = True
    admission.pool = await gateway.backends.awake(admission.pool)
    parts = await parts_of(exchange, admission, request.etag)
    change = exchange.change
    await change.lock([admission.object_key])
    view = await current_bucket(exchange, admission)  # its versioning may have changed meanwhile
    try:
        change.open_intent(admission)
        record, is_new = await _placed(exchange, admission, view, request, parts)
    except NotPlaced as refusal:
        change.close_intent()
        change.unlock()
        answer(exchange, refusal.outcome, str(refusal))
        return
    event = _moved(exchange, admission, record)
    change.unlock()
    await change.log([event])
    change.close_intent()
    answer(exchange, "placed" if is_new else "already", "")


async def _placed(
    exchange: Exchange, admission: Admission, view: BucketView, request: PlaceRequest, parts: tuple[int, ...]
) -> tuple[Placement, bool]:
    gateway, key = exchange.gateway, admission.object_key
    moved_before = await records.of_key(gateway, view.bucket.uid, key)
    known = of_version(moved_before, admission.version_id)
    if known is None:
        return await _place_stored(exchange, admission, view, request, parts, moved_before), True
    if (known.location, known.data_key) == (request.location, request.data_key):
        # An earlier attempt was cut off: what it left undone is done now.
        await settle(gateway, admission.pool, view, key)
        return known, False
    return await _place_again(exchange, admission, view, request, known), True


async def _place_again(
    exchange: Exchange, admission: Admission, view: BucketView, request: PlaceRequest, known: Placement
) -> Placement:
    """A version that lies elsewhere already, or did, and was moved back."""
    gateway = exchange.gateway
    _compare(request, Identity(known.etag, known.size, known.last_modified))
    moved = replace(
        known,
        location=request.location,
        data_key=request.data_key,
        data_etag=request.data_etag,
        storage_class=request.storage_class,
        moved_ns=time.time_ns(),
    )
    if known.location:
        await records.send(gateway, [records.pending_data(known, "moved on")])
        await _put(gateway, moved, known)
        return moved
    stored = await stored_versions(gateway, admission.pool, view.bucket.name, known.key)
    holder = known.stub_id or NULL_VERSION
    if not any(version.is_latest and (version.version_id or NULL_VERSION) == holder for version in stored):
        if holder == NULL_VERSION or would_uncover(holder, stored):
            raise NotPlaced("refused", "it was moved back, and is not the current version any more")
        # It has a record alone from now on.
        await _put(gateway, moved, known)
        await delete_stored(gateway, admission.pool, known)
        await settle(gateway, admission.pool, view, known.key)
        return moved
    # What holds the data becomes an empty stub again.
    await _check_null(gateway, admission, known.version_id, stored)
    if_match = await replaced_etag(gateway, admission.pool, view, known, stored)
    await _put(gateway, moved, known)
    moved = await _with_stub(gateway, admission, view, moved, known, stored, if_match)
    if (moved.stub_id or NULL_VERSION) != holder:
        await delete_version(gateway, admission.pool, view.bucket.name, known.key, holder)
    return moved


async def _place_stored(
    exchange: Exchange,
    admission: Admission,
    view: BucketView,
    request: PlaceRequest,
    parts: tuple[int, ...],
    moved_before: list[Placement],
) -> Placement:
    """A version that lies in the store. `moved_before` are the records of the key's other versions."""
    gateway, key, bucket = exchange.gateway, admission.object_key, view.bucket
    head = await stored_head(exchange, admission)
    headers = head.headers
    _compare(request, identity_of(head))
    version_id = version_id_of(head)
    stored = await stored_versions(gateway, admission.pool, bucket.name, key)
    listed = listed_version(stored, version_id)
    if admission.has_versions and any(name in headers for name in _LOCKED):
        raise NotPlaced("refused", "the version is locked")
    if listed.is_latest:
        await _check_null(gateway, admission, version_id, stored)
    if would_uncover(version_id, stored):
        raise NotPlaced("refused", _UNCOVERS)
    described = await describe(exchange, admission, head, stored, moved_before, parts)
    record = replace(
        described,
        location=request.location,
        data_key=request.data_key,
        storage_class=request.storage_class,
        moved_ns=time.time_ns(),
        data_etag=request.data_etag,
        has_original=admission.has_versions and not listed.is_latest,
    )
    if not listed.is_latest:
        # Whoever comes to delete the original before its record is there finds it in use, and looks again.
        await records.send(gateway, [records.pending_original(record)])
    await _put(gateway, record, None)
    if not listed.is_latest:
        return record
    return await _with_stub(gateway, admission, view, record, None, stored, record.etag)


async def _check_null(gateway: Gateway, admission: Admission, version_id: str, stored: Sequence[ListedVersion]) -> None:
    if await would_replace_null(gateway, admission.pool, admission.bucket_name, version_id, stored):
        raise NotPlaced("refused", "versioning is suspended, and a stub would replace the null version")


async def _with_stub(
    gateway: Gateway,
    admission: Admission,
    view: BucketView,
    record: Placement,
    before: Placement | None,
    stored: Sequence[ListedVersion],
    if_match: str,
) -> Placement:
    """The record with its stub. If the store has another current version by now, what stood before the record stands
    there again."""
    try:
        return await make_stub(gateway, admission.pool, view, record, stored, if_match=if_match)
    except S3Error:
        await records.take_back(gateway, record, before)
        raise NotPlaced("changed", "it was replaced") from None


async def _put(gateway: Gateway, record: Placement, before: Placement | None) -> None:
    """Whoever sends the data of a copy to deletion drops the reference to the copy after that. A worker that comes too
    late, or whose request took too long, does not have the version placed then. In the other order, deletion finds the
    record."""
    if not await records.put_copied(gateway, record, before):
        raise NotPlaced("changed", "nobody waits for the copy any more")


def _compare(request: PlaceRequest, found: Identity) -> None:
    entry = DeleteEntry("", etag=request.etag or None, last_modified=request.last_modified or None, size=request.size)
    if not holds(entry, found):
        raise NotPlaced("changed", "it is not the version that was copied")


async def delete_original(exchange: Exchange, admission: Admission) -> None:
    """Deletes the original of a version that was moved. One that the record does not tell of is in use."""
    gateway, key, version_id = exchange.gateway, admission.object_key, admission.version_id
    admission.pool = await gateway.backends.awake(admission.pool)
    await exchange.change.lock([key])
    view = await current_bucket(exchange, admission)
    record = of_version(await records.of_key(gateway, view.bucket.uid, key), version_id)
    stored = await stored_versions(gateway, admission.pool, view.bucket.name, key)
    found = next((version for version in stored if version.version_id == version_id), None)
    names = await stub_names(gateway, admission.pool, view, key, stored) if version_id == NULL_VERSION else {}
    if record is None:
        if found is not None:
            raise S3Error("OperationAborted", "the version is in use")
    elif found is not None and would_uncover(version_id, stored):
        raise S3Error("OperationAborted", _UNCOVERS)
    elif found is not None and is_original(record, found, names):
        path, query = object_path(view.bucket.name, key), version_query(version_id)
        reply = await ask_signed(gateway, admission.pool, b"DELETE", path, query)
        if reply.head.status not in (200, 204, 404):
            raise Unavailable(f"the backend does not delete an original ({reply.head.status})")
    if record is not None and record.has_original:
        await records.put(gateway, replace(record, has_original=False), record)
    exchange.answer(204, {}, b"")


async def current_bucket(exchange: Exchange, admission: Admission) -> BucketView:
    view = await exchange.gateway.directory.current_bucket(admission.bucket_name)
    if view is None or admission.bucket is None or view.bucket.uid != admission.bucket.uid:
        raise S3Error("NoSuchBucket", fields={"BucketName": admission.bucket_name})
    return view


def _moved(exchange: Exchange, admission: Admission, record: Placement) -> Event:
    version_id = record.version_id if admission.has_versions else ""
    return event_builder.event(
        exchange,
        EventKind.MOVED,
        version_id=version_id,
        etag=record.etag,
        size=record.size,
        storage_class=record.storage_class or "STANDARD",
    )


def answer(exchange: Exchange, outcome: str, reason: str) -> None:
    exchange.answer(200, _JSON, codec.to_bytes({"outcome": outcome, "reason": reason}))
