"""Which events a successful change becomes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from tidegate.core import xml
from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.s3errors import CODES, S3Error
from tidegate.core.sigv4 import STREAMING_PAYLOADS
from tidegate.gateway.admission import Admission
from tidegate.gateway.bucket_states import note_versioning
from tidegate.gateway.http1 import ResponseHead
from tidegate.gateway.requests import stat, stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.exchange import Exchange

_STANDARD = "STANDARD"


def check(admission: Admission) -> None:
    """Refuses what the log could not take down after the change was made."""
    if b"x-amz-tagging" in admission.head.headers:
        _header_tags(admission)


def events(
    exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes, received: int
) -> list[Event] | Awaitable[list[Event]]:
    """At once where request and reply say all; otherwise after a look at the object that came about."""
    headers = reply.headers
    name = admission.operation.name
    version_id = headers.get(b"x-amz-version-id", b"").decode()
    if name == "PutObject":
        return [_put(exchange, version_id=version_id, etag=_etag(headers), size=_size(admission, received))]
    if name == "DeleteObject":
        return [_deleted(exchange, admission, headers, version_id)]
    if name in ("CopyObject", "CompleteMultipartUpload"):
        fields = _result(body)
        return _look_up(exchange, admission, version_id, fields.get("ETag", "").strip('"'))
    if name == "CreateMultipartUpload":
        upload_id = _result(body).get("UploadId", "")
        return [
            event(
                exchange,
                EventKind.UPLOAD_STARTED,
                upload_id=upload_id,
                tags=_header_tags(admission),
                storage_class=_storage_class(admission.head.headers),
            )
        ]
    if name == "AbortMultipartUpload":
        return [event(exchange, EventKind.UPLOAD_ABORTED, upload_id=query_value(admission, "uploadId"))]
    if name in ("PutObjectTagging", "DeleteObjectTagging"):
        tags = exchange.parsed if name == "PutObjectTagging" else ()
        return [event(exchange, EventKind.TAGGING, version_id=query_value(admission, "versionId"), tags=tags)]
    if name == "PutBucketVersioning":
        return _versioning_changed(exchange, admission)
    return [event(exchange, EventKind.BUCKET_ATTRIBUTES, key="", attributes=exchange.parsed or _changed(name))]


def _result(body: bytes) -> dict[str, str]:
    """The fields of a successful answer; one of status 200 may still carry an error."""
    reply = xml.parse_reply(body)
    if reply.root == "Error":
        code = reply.fields.get("Code", "")
        raise S3Error(code if code in CODES else "ServiceUnavailable", reply.fields.get("Message", ""))
    return reply.fields


def event(exchange: Exchange, kind: EventKind, *, key: str | None = None, **fields: object) -> Event:
    """An event of this exchange, which has the key's turn."""
    admission = exchange.admission
    assert admission is not None
    bucket = admission.bucket
    key = admission.object_key if key is None else key
    return Event(
        ts_ns=exchange.event_time(key),
        operation=kind,
        pool=admission.pool.pool.name,
        bucket=admission.bucket_name,
        bucket_uid=bucket.uid if bucket is not None else "",
        owner=admission.pool.pool.owner,
        key=key,
        source=f"{exchange.gateway.name}/{exchange.request_id}",
        **fields,  # type: ignore[arg-type]
    )


def _put(exchange: Exchange, *, version_id: str, etag: str, size: int) -> Event:
    admission = exchange.admission
    assert admission is not None
    headers = admission.head.headers
    return event(
        exchange,
        EventKind.PUT,
        version_id=version_id,
        etag=etag,
        size=size,
        tags=_header_tags(admission),
        storage_class=_storage_class(headers),
    )


def _deleted(exchange: Exchange, admission: Admission, headers: dict[bytes, bytes], version_id: str) -> Event:
    """Without a version id in the request, a marker was added, or there is no versioning."""
    asked_for = query_value(admission, "versionId") if admission.head.query else ""
    if not asked_for and headers.get(b"x-amz-delete-marker") == b"true":
        return event(exchange, EventKind.DELETE_MARKER, version_id=version_id)
    return event(exchange, EventKind.DELETE, version_id=asked_for)


async def _versioning_changed(exchange: Exchange, admission: Admission) -> list[Event]:
    gateway, bucket, attributes = exchange.gateway, admission.bucket, exchange.parsed
    if bucket is not None:
        versioning = dict(attributes)["versioning"]
        await gateway.loop.run_in_executor(None, note_versioning, gateway.tables, bucket.uid, versioning)
    return [event(exchange, EventKind.BUCKET_ATTRIBUTES, key="", attributes=attributes)]


async def _look_up(exchange: Exchange, admission: Admission, version_id: str, etag: str) -> list[Event]:
    """What a copy or a completed upload came to be: the client's request does not tell."""
    found = await stat(exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id)
    if found is None:
        raise S3Error("ServiceUnavailable", "the backend does not show what it has stored")
    headers = found.head.headers
    tags: Pairs = ()
    if headers.get(b"x-amz-tagging-count", b"0") != b"0":
        tags = await stored_tags(
            exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id
        )
    upload_id = ""
    if admission.operation.name == "CompleteMultipartUpload":
        upload_id = query_value(admission, "uploadId")
    return [
        event(
            exchange,
            EventKind.PUT,
            version_id=version_id,
            etag=etag or _etag(headers),
            size=int(headers.get(b"content-length", b"0")),
            tags=tags,
            storage_class=_storage_class(headers),
            upload_id=upload_id,
        )
    ]


def query_value(admission: Admission, name: str) -> str:
    values = parse_qs(admission.head.query.decode("latin-1"), keep_blank_values=True).get(name)
    return values[0] if values else ""


def _changed(operation: str) -> Pairs:
    return ((operation, "changed"),)


def _etag(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"etag", b"").decode("latin-1").strip('"')


def _size(admission: Admission, received: int) -> int:
    """Of an aws-chunked body the header, which was checked; of any other it means nothing."""
    headers = admission.head.headers
    if headers.get(b"x-amz-content-sha256", b"").decode("latin-1") in STREAMING_PAYLOADS:
        return int(headers[b"x-amz-decoded-content-length"])
    return received


def _storage_class(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"x-amz-storage-class", b"").decode("latin-1") or _STANDARD


def _header_tags(admission: Admission) -> Pairs:
    text = admission.head.headers.get(b"x-amz-tagging")
    return xml.parse_tagging_header(text) if text else ()
