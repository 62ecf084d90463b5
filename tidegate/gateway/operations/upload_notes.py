"""The checksums of open uploads, which backends compute but do not show: kept in the tables until the upload ends.

An upload is noted down with its algorithm when it begins, a part with its checksum when the backend has it. Completions
that state checksums are compared with these. Notes of uploads that nobody ends vanish by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.core import checksums, part_lists
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.upload_checksums import (
    PartChecksums,
    PartName,
    UploadChecksum,
    check_parts,
    check_size,
    completion_header,
    shown,
)
from tidegate.core.xml import CompletedPart
from tidegate.gateway.changes import event_builder
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path
from tidegate.ports import Tables

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

_UPLOAD = "uc:"
_PART = "up:"
_KEPT_SECONDS = 30 * 86400.0
_OBJECT_SIZE = b"x-amz-mp-object-size"
_ALGORITHM, _TYPE = b"x-amz-checksum-algorithm", b"x-amz-checksum-type"
_PAGE = 1000


class Notes(NamedTuple):
    """What is known of an upload."""

    upload: UploadChecksum | None
    parts: PartChecksums


# --- noting down -------------------------------------------------------------------------------------------------


def upload_started(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> event_builder.Events:
    events = event_builder.upload_started(exchange, admission, reply, body)
    if _ALGORITHM not in reply.headers or not isinstance(events, list):
        return events
    algorithm, kind = (reply.headers.get(name, b"").decode("latin-1") for name in (_ALGORITHM, _TYPE))
    place = _place(admission, events[0].upload_id)
    return _noted(exchange, _UPLOAD + place, UploadChecksum(algorithm, kind).to_text(), events)


def part_uploaded(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> event_builder.Events:
    """A part is no event, and its checksum is all that there is to keep."""
    checksum = shown(reply.headers)
    if checksum is None:
        return []
    etag = reply.headers.get(b"etag", b"").decode("latin-1").strip('"')
    number = int(admission.parameters["partNumber"])
    entry = f"{_PART}{_place(admission, admission.upload_id)}:{number:05}:{etag}"
    return _noted(exchange, entry, " ".join(checksum), [])


def upload_completed(
    exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes
) -> event_builder.Events:
    events = event_builder.copied_or_completed(exchange, admission, reply, body)
    _forget_later(exchange, admission)
    return events


def upload_aborted(exchange: Exchange, admission: Admission, reply: ResponseHead, body: bytes) -> event_builder.Events:
    _forget_later(exchange, admission)
    return event_builder.upload_aborted(exchange, admission, reply, body)


async def _noted(exchange: Exchange, entry: str, text: str, events: list[Event]) -> list[Event]:
    gateway = exchange.gateway
    await gateway.loop.run_in_executor(None, lambda: gateway.tables.put(entry, text, expires_in=_KEPT_SECONDS))
    return events


def _forget_later(exchange: Exchange, admission: Admission) -> None:
    """Nobody waits for it."""
    gateway = exchange.gateway
    gateway.loop.run_in_executor(None, _forget, gateway.tables, _place(admission, admission.upload_id))


def _forget(tables: Tables, place: str) -> None:
    try:
        tables.delete(_UPLOAD + place)
        while entries := tables.scan(f"{_PART}{place}:", limit=_PAGE):
            for entry, _ in entries:
                tables.delete(entry)
    except TidegateError as error:
        logger.warning("notes of an upload that has ended are left to vanish: %s", error)


def _place(admission: Admission, upload_id: str) -> str:
    assert admission.bucket is not None
    return f"{admission.bucket.uid}:{upload_id}"


# --- going by it -------------------------------------------------------------------------------------------------


def look_up(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None]:
    """Before the parts of an upload are listed."""
    return _look_up(exchange, admission)


def with_checksums(exchange: Exchange, body: bytes) -> bytes:
    notes: Notes = exchange.noted
    return part_lists.with_checksums(body, *notes)


def check_completion(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """What is to be done before a completion that states more than its parts' numbers and ETags."""
    headers = admission.head.headers
    states_more = _OBJECT_SIZE in headers or any(name.startswith(checksums.PREFIX) for name in headers)
    return _check(exchange, admission) if states_more or any(len(part.fields) > 1 for part in exchange.parsed) else None


async def _check(exchange: Exchange, admission: Admission) -> None:
    parts: tuple[CompletedPart, ...] = exchange.parsed
    headers = admission.head.headers
    notes = await _notes(exchange, admission)
    admission.checksum = completion_header(notes.upload, headers, len(parts))
    check_parts(parts, notes.parts, is_certain=notes.upload is None)
    if _OBJECT_SIZE in headers:
        check_size(headers[_OBJECT_SIZE], parts, await _sizes(exchange, admission))
    exchange.forward()


async def _sizes(exchange: Exchange, admission: Admission) -> dict[PartName, int]:
    gateway = exchange.gateway
    admission.pool = await gateway.backends.awake(admission.pool)
    path = object_path(admission.bucket_name, admission.object_key)
    query = encoded_query((("uploadId", admission.upload_id),))
    reply = await ask_signed(gateway, admission.pool, b"GET", path, query)
    return dict(part_lists.part_sizes(reply.body)) if reply.head.status == 200 else {}


async def _look_up(exchange: Exchange, admission: Admission) -> None:
    exchange.noted = await _notes(exchange, admission)
    exchange.forward()


async def _notes(exchange: Exchange, admission: Admission) -> Notes:
    gateway = exchange.gateway
    place = _place(admission, admission.upload_id)
    return await gateway.loop.run_in_executor(None, _read, gateway.tables, place)


def _read(tables: Tables, place: str) -> Notes:
    text = tables.get(_UPLOAD + place)
    parts: dict[PartName, tuple[str, str]] = {}
    prefix, after = f"{_PART}{place}:", None
    while entries := tables.scan(prefix, after=after, limit=_PAGE):
        for entry, value in entries:
            number, _, etag = entry.removeprefix(prefix).partition(":")
            name, _, checksum = value.partition(" ")
            parts[PartName(int(number), etag)] = (name, checksum)
        after = entries[-1][0]
    return Notes(UploadChecksum.from_text(text) if text is not None else None, parts)
