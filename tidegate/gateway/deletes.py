"""Deletes: many in one request, and those that name what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegate.core import xml
from tidegate.core.events import Event, EventKind
from tidegate.core.identities import holds, moment, needs_look
from tidegate.core.s3errors import S3Error
from tidegate.core.storable import key_problem
from tidegate.core.xml import Deleted, DeleteEntry, DeleteFailure
from tidegate.gateway import journalling
from tidegate.gateway.admission import Admission
from tidegate.gateway.backend import Reply
from tidegate.gateway.looking import identity, unchanged
from tidegate.gateway.requests import ask_signed, object_path, stat

if TYPE_CHECKING:
    from tidegate.gateway.exchange import Exchange

_XML = {"Content-Type": "application/xml"}
_MOST_SIZE_DIGITS = 16
_MODIFIED, _SIZE = b"x-amz-if-match-last-modified-time", b"x-amz-if-match-size"
_UNMODIFIED = b"if-unmodified-since"
_MARKER = b"x-amz-if-match-delete-marker"
_CONDITIONS = (_MODIFIED, _SIZE, _UNMODIFIED, _MARKER)
# A part holds its keys' turns while the store works on it: a small one keeps few writers waiting, and rarely meets
# a part of another request that has one of its turns.
_PART = 250


def is_conditional(admission: Admission) -> bool:
    """Whether a single delete names more than a backend compares by itself."""
    return any(name in admission.head.headers for name in _CONDITIONS)


async def delete_one_if_same(exchange: Exchange, admission: Admission) -> None:
    """The identity is compared in the key's turn: no writer behind a gateway can come in between."""
    entry = _named(admission)
    admission.pool = await exchange.gateway.awake(admission.pool)
    await exchange.take_turns([entry.key])
    found = await stat(exchange.gateway, admission.pool, admission.bucket_name, entry.key, entry.version_id)
    if _MARKER in admission.head.headers:
        is_meant = found is None  # no object is there that could be lost; markers cannot be looked at
    else:
        is_meant = found is not None and holds(entry, identity(found))
    if not is_meant:
        raise S3Error("PreconditionFailed")
    exchange.forward()


def _named(admission: Admission) -> DeleteEntry:
    """What the headers ask for, but for the ETag, which the backend compares."""
    headers = admission.head.headers
    size = headers.get(_SIZE)
    if size is not None and not (size.isdigit() and len(size) <= _MOST_SIZE_DIGITS):
        raise S3Error("InvalidArgument", f"{_SIZE.decode()} is not a number")
    times = {name: headers[name].decode("latin-1") for name in (_MODIFIED, _UNMODIFIED) if name in headers}
    for name, text in times.items():
        if moment(text) is None:
            raise S3Error("InvalidArgument", f"{name.decode()} is not a time")
    return DeleteEntry(
        admission.object_key,
        journalling.query_value(admission, "versionId"),
        last_modified=times.get(_MODIFIED),
        size=None if size is None else int(size),
        unmodified_since=times.get(_UNMODIFIED),
    )


async def delete_many(exchange: Exchange, admission: Admission) -> Reply | None:
    """Always asks the backend for the full report, since the log needs it; the client gets what it asked for.

    Returns the backend's answer where it refuses the whole request.
    """
    request: xml.DeleteRequest = exchange.parsed
    admission.pool = await exchange.gateway.awake(admission.pool)
    storable, refused = _storable(admission, request.entries)
    deleted: list[Deleted] = []
    for part in _parts(storable):
        reply = await _delete_part(exchange, admission, part, deleted, refused)
        if reply is not None:
            return reply
    exchange.answer(200, _XML, xml.delete_result_xml(() if request.quiet else deleted, refused))
    return None


def _parts(entries: list[DeleteEntry]) -> Iterator[list[DeleteEntry]]:
    """In the order of the keys, so that neighbours are looked at together."""
    entries = sorted(entries, key=lambda entry: entry.key.encode())
    for start in range(0, len(entries), _PART):
        yield entries[start : start + _PART]


async def _delete_part(
    exchange: Exchange,
    admission: Admission,
    part: Sequence[DeleteEntry],
    deleted: list[Deleted],
    refused: list[DeleteFailure],
) -> Reply | None:
    """Adds to what was deleted and what was refused."""
    gateway, bucket, key = exchange.gateway, admission.bucket_name, admission.key
    exchange.wait(gateway.patience_seconds)
    await exchange.take_turns([entry.key for entry in part])
    verdicts = await unchanged(gateway, admission.pool, bucket, part)
    kept = [entry for entry, is_meant in zip(part, verdicts, strict=True) if is_meant]
    refused.extend(_not_meant(entry) for entry, is_meant in zip(part, verdicts, strict=True) if not is_meant)
    done: tuple[Deleted, ...] = ()
    if kept:
        exchange.begin_change((entry.key, entry.version_id) for entry in kept)
        reply = await ask_signed(
            gateway,
            admission.pool,
            b"POST",
            object_path(bucket),
            b"delete=",
            body=xml.delete_request_xml(map(_sent, kept)),
            credentials=(key.access_key, key.secret) if key is not None else None,
            headers={b"content-type": b"application/xml"} | _bypass(admission),
        )
        if reply.head.status != 200:
            if reply.head.status < 500:
                exchange.settle()
            return reply
        answered = xml.parse_delete_result(reply.body)
        done = answered.deleted
        refused.extend(answered.failures)
    await exchange.journalled([_deletion(exchange, entry) for entry in done])
    deleted.extend(done)
    return None


def _storable(admission: Admission, entries: Sequence[DeleteEntry]) -> tuple[list[DeleteEntry], list[DeleteFailure]]:
    """A key that the backend would take for another one must not be deleted there."""
    kept: list[DeleteEntry] = []
    refused: list[DeleteFailure] = []
    for entry in entries:
        problem = key_problem(admission.pool.pool.backend, entry.key)
        if problem:
            refused.append(DeleteFailure(entry.key, entry.version_id, "InvalidArgument", problem))
        else:
            kept.append(entry)
    return kept, refused


def _sent(entry: DeleteEntry) -> DeleteEntry:
    """What was compared here need not be compared once more, which costs the store a look at the object."""
    return entry._replace(etag=None) if needs_look(entry) else entry


def _not_meant(entry: DeleteEntry) -> DeleteFailure:
    return DeleteFailure(entry.key, entry.version_id, "PreconditionFailed", "The object is not the one that was meant.")


def _bypass(admission: Admission) -> dict[bytes, bytes]:
    name = b"x-amz-bypass-governance-retention"
    value = admission.head.headers.get(name)
    return {name: value} if value is not None else {}


def _deletion(exchange: Exchange, entry: Deleted) -> Event:
    if entry.marker and not entry.version_id:
        return journalling.event(exchange, EventKind.DELETE_MARKER, key=entry.key, version_id=entry.marker_version_id)
    return journalling.event(exchange, EventKind.DELETE, key=entry.key, version_id=entry.version_id)
