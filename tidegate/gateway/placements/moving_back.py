"""Moving a version back into the pool's own store: its data takes the place of the stub.

The record stays. It keeps the version's id, time and ETag, which a store would make anew.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.placements import STUB_HEADER, Placement, of_version
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.key_versions import stored_versions
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements import records
from tidegate.gateway.placements.settling import would_replace_null
from tidegate.gateway.placements.stubs import delete_stored

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
    version_id, admission.parameters = record.version_id, {}
    own = {name.lower().encode(): value.encode("latin-1") for name, value in record.headers}
    described = {name: value for name, value in own.items() if name.startswith(b"x-amz-meta-") or name in DESCRIBED}
    admission.headers = described | {STUB_HEADER.encode(): record.stub_name.encode()}
    admission.before_commit = partial(_check_again, exchange, admission, version_id)
    exchange.noted = version_id


async def _check_again(exchange: Exchange, admission: Admission, version_id: str) -> None:
    gateway, bucket, key = exchange.gateway, admission.bucket_name, admission.object_key
    await _check(exchange, admission, version_id)
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
