"""GET and HEAD where objects may have been moved: one look at the records, then the data from where it lies.

The record is looked up before the store is asked. A moved object therefore costs no more than one that is read from its
location directly, and its pool may sleep on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from tidegate.core.conditional_reads import Span, is_not_modified, span_of
from tidegate.core.errors import Unavailable
from tidegate.core.placements import Placement, of_version
from tidegate.core.s3errors import S3Error
from tidegate.gateway.placements import records
from tidegate.gateway.placements.cold_read import ColdRead
from tidegate.gateway.requests import expiration, replication_status

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

_MOST_LOOKS = 4
_OVERRIDE = "response-"
_CHECKSUM = "x-amz-checksum-"

Lines = list[tuple[str, str]]


async def read(exchange: Exchange, admission: Admission, missing: Placement | None = None) -> None:
    """`missing` is a record whose data was not found: another one may stand there by now."""
    assert admission.bucket is not None
    exchange.stub_looks += 1
    found = await records.of_key(exchange.gateway, admission.bucket.uid, admission.object_key)
    record = of_version(found, admission.version_id)
    if record is None:
        if is_hidden(found, admission.version_id):
            raise S3Error("NoSuchVersion", fields={"Key": admission.object_key, "VersionId": admission.version_id})
        if exchange.stub_looks > _MOST_LOOKS:
            raise Unavailable("the record of this object, which was moved, is missing")
        await exchange.proceed()
    elif missing is not None and (missing.location, missing.data_key) == (record.location, record.data_key):
        logger.error("%s/%s: its data is missing in location %s", record.bucket, record.key, record.location)
        raise Unavailable(f"the data of this object is missing in location {record.location}")
    elif exchange.stub_looks > _MOST_LOOKS:
        raise Unavailable("this object moves faster than it can be read")
    else:
        await _show(exchange, admission, record)


def is_hidden(found: Iterable[Placement], version_id: str) -> bool:
    """Whether that is the store's own id of a stub, which no client knows."""
    return bool(version_id) and any(record.has_stub and record.stub_id == version_id for record in found)


async def _show(exchange: Exchange, admission: Admission, record: Placement) -> None:
    headers = admission.head.headers
    if is_not_modified(headers, record.etag, record.last_modified):
        _answer_head(exchange, 304, _identity(admission, record))
        return
    number = int(admission.parameters.get("partNumber", "0"))
    span = span_of(headers.get(b"range"), record.size, part_number=number, parts=record.parts)
    status = 206 if span.is_part else 200
    lines = _lines(admission, record, span, status)
    replication = await replication_status.of_moved(exchange, admission, record)
    if replication:
        lines.append((replication_status.HEADER, replication))
    if number:
        lines.append(("x-amz-mp-parts-count", str(len(record.parts) or 1)))
    if exchange.head.method == b"HEAD" or not span.length:
        _answer_head(exchange, status, lines)
        return
    read_data = ColdRead(
        exchange, record, span, _head(exchange, status, lines), lambda: read(exchange, admission, record)
    )
    exchange.transfer = read_data
    await read_data.start()


def shown_headers(record: Placement, *, with_version: bool, with_checksum: bool = True) -> Lines:
    """What a reply tells of a moved version beside the length of its body."""
    lines = [(name, value) for name, value in record.headers if with_checksum or not name.lower().startswith(_CHECKSUM)]
    if record.tags:
        lines.append(("x-amz-tagging-count", str(len(record.tags))))
    if record.storage_class:
        lines.append(("x-amz-storage-class", record.storage_class))
    if with_version:
        lines.append(("x-amz-version-id", record.version_id))
    lines.append(("ETag", f'"{record.etag}"'))
    lines.append(("Last-Modified", formatdate(int(record.last_modified), usegmt=True)))
    return lines


def _identity(admission: Admission, record: Placement) -> Lines:
    wanted = {"etag", "last-modified", "x-amz-version-id"}
    shown = shown_headers(record, with_version=admission.has_versions)
    return [(name, value) for name, value in shown if name.lower() in wanted]


def _lines(admission: Admission, record: Placement, span: Span, status: int) -> Lines:
    wants_checksum = admission.head.headers.get(b"x-amz-checksum-mode", b"").upper() == b"ENABLED"
    lines = shown_headers(
        record, with_version=admission.has_versions, with_checksum=wants_checksum and not span.is_part
    )
    overrides = {
        name.removeprefix(_OVERRIDE): value
        for name, value in admission.parameters.items()
        if name.startswith(_OVERRIDE)
    }
    lines = [(name, value) for name, value in lines if name.lower() not in overrides]
    lines += [(name.title(), value) for name, value in overrides.items()]
    if span.is_part:
        last = span.start + span.length - 1
        lines.append(("Content-Range", f"bytes {span.start}-{last}/{record.size}"))
    line = expiration.of_moved(admission, record, status)
    if line:
        lines.append(("x-amz-expiration", line))
    lines.append(("Content-Length", str(span.length)))
    return lines


def _answer_head(exchange: Exchange, status: int, lines: Lines) -> None:
    exchange.status = status
    if exchange.client is not None:
        exchange.client.write(_head(exchange, status, lines))
    exchange.finish()


def _head(exchange: Exchange, status: int, lines: Lines) -> bytes:
    client = exchange.client
    added = [("x-amz-request-id", exchange.request_id), ("Date", exchange.gateway.http_date()), *exchange.cors.items()]
    if client is not None and not client.keeps_alive:
        added.append(("Connection", "close"))
    texts = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    texts += [f"{name}: {value}" for name, value in (*lines, *added)]
    return "\r\n".join(texts).encode("latin-1", "replace") + b"\r\n\r\n"
