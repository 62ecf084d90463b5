"""Moving a version back into the pool's own store: its data takes the place of the stub.

The record stays. It keeps the version's id, time and ETag, which a store would make anew.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.placements import STUB_HEADER, Placement, of_version
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.key_versions import stored_versions
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements import records
from tidegate.gateway.placements.settling import is_suspended, would_replace_null
from tidegate.gateway.placements.stored_version import identity_of
from tidegate.gateway.placements.stubs import delete_stored, shown, stub_name

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

DATA_KEY = b"x-amz-tidegate-data-key"
DESCRIBED = frozenset(
    (b"cache-control", b"content-disposition", b"content-encoding", b"content-language", b"content-type", b"expires")
)


async def prepare(exchange: Exchange, admission: Admission) -> None:
    """Before the data comes in: what is asked for must be a version that lies where the worker read it."""
    record = await _check(exchange, admission, admission.version_id)
    admission.pool = await exchange.gateway.backends.awake(admission.pool)
    etag = await _stub_etag(exchange, admission, record)
    version_id, admission.parameters = record.version_id, {}
    own = {name.lower().encode(): value.encode("latin-1") for name, value in record.headers}
    described = {name: value for name, value in own.items() if name.startswith(b"x-amz-meta-") or name in DESCRIBED}
    own_headers = {STUB_HEADER.encode(): record.stub_name.encode()}
    if not record.stub_id or not await is_suspended(exchange.gateway, admission.pool, admission.bucket_name):
        # A store may carry the request out when the gateway has long given up, and the key is free. What a client has
        # put since has another ETag than the stub, unless it is empty, or was moved as well. While versioning is
        # suspended, SeaweedFS compares with the null version alone.
        own_headers[b"if-match"] = f'"{etag}"'.encode()
    admission.headers = described | own_headers
    admission.before_commit = partial(_check_again, exchange, admission, version_id, etag)
    exchange.noted = version_id


async def _stub_etag(exchange: Exchange, admission: Admission, record: Placement) -> str:
    """The ETag of the stub. An attempt whose answer was lost may have put the data in its place."""
    head = await shown(exchange.gateway, admission.pool, admission.bucket_name, admission.object_key)
    if stub_name(head) != record.stub_name:
        raise Unavailable("the backend does not show the stub of the version")
    return identity_of(head).etag


async def _check_again(exchange: Exchange, admission: Admission, version_id: str, etag: str) -> None:
    """The key is locked. What an earlier attempt has changed since the request began is no reason to give up."""
    gateway, bucket, key = exchange.gateway, admission.bucket_name, admission.object_key
    record = await _check(exchange, admission, version_id)
    if await _stub_etag(exchange, admission, record) != etag:
        raise Unavailable("the stub of the version was changed by an earlier attempt")
    if version_id == NULL_VERSION:
        return
    stored = await stored_versions(gateway, admission.pool, bucket, key)
    if await would_replace_null(gateway, admission.pool, bucket, version_id, stored):
        raise S3Error("AccessDenied", "versioning is suspended, and the data would replace the null version")


async def _check(exchange: Exchange, admission: Admission, version_id: str) -> Placement:
    assert admission.bucket is not None
    found = await records.of_key(exchange.gateway, admission.bucket.uid, admission.object_key)
    record = of_version(found, version_id)
    if record is None:
        raise S3Error("NoSuchKey", "the version was not moved, or is gone", fields={"Key": admission.object_key})
    if record.data_key != exchange.head.headers.get(DATA_KEY, b"").decode("latin-1") or not record.location:
        raise S3Error("PreconditionFailed", "the version does not lie there any more")
    if not record.has_stub or not record.is_current:
        raise S3Error("AccessDenied", "a noncurrent version cannot be moved back: stores order versions by time")
    return record


def moved_back(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> event_builder.Events:
    return _moved_back(exchange, admission, reply)


async def _moved_back(exchange: Exchange, admission: Admission, reply: ResponseHead) -> list[Event]:
    """The key is still locked, and the store has the data: the record follows, and the data that was elsewhere goes."""
    gateway, version_id = exchange.gateway, exchange.noted
    record = await _check(exchange, admission, version_id)
    stub_id = reply.headers.get(b"x-amz-version-id", b"").decode("latin-1")
    await records.send(gateway, [records.pending_data(record, "moved back")])
    back = replace(
        record, location="", data_key="", data_etag="", storage_class="", stub_id=stub_id, moved_ns=time.time_ns()
    )
    await records.put(gateway, back, record)
    await delete_stored(gateway, admission.pool, record, unless=stub_id)
    return [
        event_builder.event(
            exchange,
            EventKind.MOVED,
            version_id=version_id if admission.has_versions else "",
            etag=record.etag,
            size=record.size,
            storage_class="STANDARD",
        )
    ]
