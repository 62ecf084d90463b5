"""Which events a successful change becomes: one function for each kind of change.

Each gets the exchange, which has the key's lock, its admission, and the backend's reply with its body. It gives the
events at once where request and reply say all; otherwise after a look at the object that came about.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from tidegate.core import xml
from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.replication.replicas import is_replica
from tidegate.core.s3errors import CODES, S3Error
from tidegate.gateway.changes.bucket_states import note_versioning
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.operations.stored_objects import customer_key, stat
from tidegate.gateway.requests.forwarding import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.changes.change import Change
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_STANDARD = "STANDARD"

Events = list[Event] | Awaitable[list[Event]]


def put(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return [
        event(
            exchange,
            EventKind.PUT,
            version_id=_version_id(reply),
            etag=_etag(reply.headers),
            size=exchange.intake.payload_bytes if exchange.intake is not None else 0,
            tags=admission.tags,
            storage_class=_storage_class(admission.headers),
            is_replica=is_replica(admission.headers),
        )
    ]


def deleted(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    """Without a version id in the request, a marker was added, or there is no versioning."""
    asked_for = admission.version_id
    if not asked_for and reply.headers.get(b"x-amz-delete-marker") == b"true":
        replica = is_replica(admission.headers)
        return [event(exchange, EventKind.DELETE_MARKER, version_id=_version_id(reply), is_replica=replica)]
    return [event(exchange, EventKind.DELETE, version_id=asked_for)]


def copied_or_completed(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    etag = _result(body).get("ETag", "").strip('"')
    return _look_up(exchange, admission, _version_id(reply), etag)


def upload_started(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return [
        event(
            exchange,
            EventKind.UPLOAD_STARTED,
            upload_id=_result(body).get("UploadId", ""),
            tags=admission.tags,
            storage_class=_storage_class(admission.headers),
        )
    ]


def upload_aborted(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return [event(exchange, EventKind.UPLOAD_ABORTED, upload_id=admission.upload_id)]


def tagged(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    """Also where all tags were removed."""
    return [event(exchange, EventKind.TAGGING, version_id=admission.version_id, tags=exchange.parsed)]


def versioning_changed(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return _versioning_changed(exchange, admission)


def bucket_tagged(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return _attributes(exchange, (("tagging", json.dumps(dict(exchange.parsed))),))


def attribute_changed(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> Events:
    return _attributes(exchange, ((admission.operation.name, "changed"),))


def _attributes(exchange: Exchange, attributes: Pairs) -> list[Event]:
    return [event(exchange, EventKind.BUCKET_ATTRIBUTES, key="", attributes=attributes)]


def _result(body: bytes) -> dict[str, str]:
    """The fields of a successful answer; one of status 200 may still carry an error."""
    reply = xml.parse_reply(body)
    if reply.root == "Error":
        code = reply.fields.get("Code", "")
        raise S3Error(code if code in CODES else "ServiceUnavailable", reply.fields.get("Message", ""))
    return reply.fields


def event(
    exchange: Exchange, kind: EventKind, *, key: str | None = None, change: Change | None = None, **fields: object
) -> Event:
    """An event of a change that has the key's lock: one of several, or the exchange's only one."""
    admission = exchange.admission
    assert admission is not None
    bucket = admission.bucket
    key = admission.object_key if key is None else key
    return Event(
        ts_ns=(change or exchange.change).event_time(key),
        operation=kind,
        pool=admission.pool.pool.name,
        bucket=admission.bucket_name,
        bucket_uid=bucket.uid if bucket is not None else "",
        owner=admission.pool.pool.owner,
        key=key,
        source=f"{exchange.gateway.name}/{exchange.request_id}",
        **fields,  # type: ignore[arg-type]
    )


async def _versioning_changed(exchange: Exchange, admission: Admission) -> list[Event]:
    gateway, bucket, versioning = exchange.gateway, admission.bucket, exchange.parsed
    if bucket is not None:
        await gateway.loop.run_in_executor(None, note_versioning, gateway.tables, bucket.uid, versioning)
        gateway.change_counter.bump()
    return _attributes(exchange, (("versioning", versioning),))


async def _look_up(exchange: Exchange, admission: Admission, version_id: str, etag: str) -> list[Event]:
    """What a copy or a completed upload came to be: the client's request does not tell."""
    given = customer_key(admission.head.headers)
    headers = await stat(
        exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id, headers=given
    )
    if headers is None:
        raise S3Error("ServiceUnavailable", "the backend does not show what it has stored")
    tags: Pairs = ()
    if headers.get(b"x-amz-tagging-count", b"0") != b"0":
        tags = await stored_tags(
            exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id
        )
    return [
        event(
            exchange,
            EventKind.PUT,
            version_id=version_id,
            etag=etag or _etag(headers),
            size=int(headers.get(b"content-length", b"0")),
            tags=tags,
            storage_class=_storage_class(headers),
            upload_id=admission.upload_id,
            # A copy of a replica has its metadata, and is a version of its own.
            is_replica=is_replica(admission.headers if admission.operation.is_copy else headers),
        )
    ]


def _version_id(reply: ResponseHead) -> str:
    return reply.headers.get(b"x-amz-version-id", b"").decode("latin-1")


def _etag(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"etag", b"").decode("latin-1").strip('"')


def _storage_class(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"x-amz-storage-class", b"").decode("latin-1") or _STANDARD
