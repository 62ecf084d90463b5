"""Deletes: many in one request, and those that name what they mean."""

from __future__ import annotations

import asyncio
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
from tidegate.gateway.journal import journalled
from tidegate.gateway.looking import current_version, identity, unchanged
from tidegate.gateway.requests import ask_signed, object_path, stat

if TYPE_CHECKING:
    from tidegate.gateway.exchange import Exchange
    from tidegate.gateway.gateway import Gateway

_XML = {"Content-Type": "application/xml"}
_MOST_SIZE_DIGITS = 16
_MODIFIED, _SIZE = b"x-amz-if-match-last-modified-time", b"x-amz-if-match-size"
_UNMODIFIED = b"if-unmodified-since"
_MARKER = b"x-amz-if-match-delete-marker"
_NONCURRENT = b"x-amz-if-noncurrent"
_CONDITIONS = (_MODIFIED, _SIZE, _UNMODIFIED, _MARKER, _NONCURRENT)
# A part holds its keys' turns while the store works on it: a small one keeps few writers waiting, and rarely meets
# a part of another request that has one of its turns.
_PART = 250
# While one is looked at or journalled, the store deletes the other.
_PARTS_AT_ONCE = 2


def is_conditional(admission: Admission) -> bool:
    """Whether a single delete names more than a backend compares by itself."""
    return any(name in admission.head.headers for name in _CONDITIONS)


async def delete_one_if_same(exchange: Exchange, admission: Admission) -> None:
    """The identity is compared in the key's turn: no writer behind a gateway can come in between."""
    entry = _named(admission)
    admission.pool = await exchange.gateway.awake(admission.pool)
    await exchange.take_turns([entry.key])
    if not await _is_meant(exchange.gateway, admission, entry):
        raise S3Error("PreconditionFailed")
    exchange.forward()


async def _is_meant(gateway: Gateway, admission: Admission, entry: DeleteEntry) -> bool:
    pool, bucket = admission.pool, admission.bucket_name
    if entry.noncurrent and await current_version(gateway, pool, bucket, entry.key) == entry.version_id:
        return False
    is_marker = _MARKER in admission.head.headers
    if not is_marker and not needs_look(entry):
        return True
    found = await stat(gateway, pool, bucket, entry.key, entry.version_id)
    if is_marker:
        return found is None  # no object is there that could be lost; markers cannot be looked at
    return found is not None and holds(entry, identity(found))


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
    version_id = journalling.query_value(admission, "versionId")
    if _NONCURRENT in headers and not version_id:
        raise S3Error("InvalidArgument", f"{_NONCURRENT.decode()} belongs to a version")
    return DeleteEntry(
        admission.object_key,
        version_id,
        last_modified=times.get(_MODIFIED),
        size=None if size is None else int(size),
        unmodified_since=times.get(_UNMODIFIED),
        noncurrent=_NONCURRENT in headers,
    )


async def delete_many(exchange: Exchange, admission: Admission) -> Reply | None:
    """Always asks the backend for the full report, since the log needs it; the client gets what it asked for.

    Returns the backend's answer where it refuses the whole request.
    """
    request: xml.DeleteRequest = exchange.parsed
    admission.pool = await exchange.gateway.awake(admission.pool)
    storable, refused = _storable(admission, request.entries)
    deleting = _Deleting(exchange, admission, refused)
    await deleting.run(_parts(storable))
    if deleting.refusal is not None:
        return deleting.refusal
    exchange.answer(200, _XML, xml.delete_result_xml(() if request.quiet else deleting.deleted, deleting.refused))
    return None


def _parts(entries: list[DeleteEntry]) -> list[list[DeleteEntry]]:
    """As few as possible and of equal size; in the order of the keys, so that neighbours are looked at together."""
    entries = sorted(entries, key=lambda entry: entry.key.encode())
    count = -(-len(entries) // _PART)
    return [entries[len(entries) * part // count : len(entries) * (part + 1) // count] for part in range(count)]


class _Deleting:
    """The parts of one request: some at a time, each with turns of its own, as if they were requests of their own.

    `refusal` is the backend's answer where it refuses a part: then no more are begun.
    """

    def __init__(self, exchange: Exchange, admission: Admission, refused: list[DeleteFailure]) -> None:
        self._exchange = exchange
        self._admission = admission
        self._failed = False
        self.deleted: list[Deleted] = []
        self.refused = refused
        self.refusal: Reply | None = None

    async def run(self, parts: Sequence[Sequence[DeleteEntry]]) -> None:
        """Parts that are under way when one fails are seen through: what they do must get into the log."""
        left = iter(parts)
        lanes = [self._run_lane(left) for _ in range(min(_PARTS_AT_ONCE, len(parts)))]
        for outcome in await asyncio.gather(*lanes, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _run_lane(self, left: Iterator[Sequence[DeleteEntry]]) -> None:
        for part in left:
            if self._failed or self.refusal is not None or self._exchange.finished:
                return
            try:
                await self._delete(part)
            except BaseException:
                self._failed = True
                raise

    async def _delete(self, part: Sequence[DeleteEntry]) -> None:
        exchange, admission = self._exchange, self._admission
        exchange.wait(exchange.gateway.patience_seconds)
        turns = await exchange.take_turns([entry.key for entry in part])
        try:
            verdicts = await unchanged(exchange.gateway, admission.pool, admission.bucket_name, part)
            kept = [entry for entry, is_meant in zip(part, verdicts, strict=True) if is_meant]
            self.refused += [_not_meant(entry) for entry, is_meant in zip(part, verdicts, strict=True) if not is_meant]
            if not kept:
                return
            change = exchange.begin_change((entry.key, entry.version_id) for entry in kept)
            reply = await self._ask(kept)
            if reply.head.status != 200:
                if reply.head.status < 500:
                    exchange.settle(change)
                self.refusal = reply
                return
            answered = xml.parse_delete_result(reply.body)
            events = [_deletion(exchange, entry) for entry in answered.deleted]
        finally:
            exchange.give_turns_back(turns)  # the events have their times: later changes have later ones
        await journalled(exchange.gateway, events)
        exchange.settle(change)
        self.deleted += answered.deleted
        self.refused += answered.failures

    async def _ask(self, entries: Sequence[DeleteEntry]) -> Reply:
        admission, key = self._admission, self._admission.key
        return await ask_signed(
            self._exchange.gateway,
            admission.pool,
            b"POST",
            object_path(admission.bucket_name),
            b"delete=",
            body=xml.delete_request_xml(map(_sent, entries)),
            credentials=(key.access_key, key.secret) if key is not None else None,
            headers={b"content-type": b"application/xml"} | _bypass(admission),
        )


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
