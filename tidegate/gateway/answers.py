"""Operations that the gateway answers itself, or in which it has a part of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tidegate.core import xml, xml_writer
from tidegate.core.errors import AlreadyExists, InvalidInput, NotFound
from tidegate.core.events import Event, EventKind
from tidegate.core.s3errors import S3Error
from tidegate.core.storable import key_problem
from tidegate.gateway import bucket_settings, journalling
from tidegate.gateway.admission import Admission
from tidegate.gateway.backend import Reply, ask
from tidegate.gateway.requests import ask_signed, object_path, stat

if TYPE_CHECKING:
    from tidegate.gateway.exchange import Exchange

_XML = {"Content-Type": "application/xml"}
_PARALLEL_LOOKS = 16
_MOST_SIZE_DIGITS = 16
_IDENTITY_HEADERS = (b"x-amz-if-match-last-modified-time", b"x-amz-if-match-size")
_MARKER_HEADER = b"x-amz-if-match-delete-marker"


def answer(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """The work to be done in place of plain forwarding, if there is any."""
    special = _SPECIAL.get(admission.operation.name)
    if special is not None:
        return special(exchange, admission)
    conditions = (*_IDENTITY_HEADERS, _MARKER_HEADER)
    if admission.operation.name == "DeleteObject" and any(name in admission.head.headers for name in conditions):
        return _delete_if_same(exchange, admission)
    return None


async def _list_buckets(exchange: Exchange, admission: Admission) -> None:
    pool = admission.pool.pool
    buckets = await _in_thread(exchange, lambda: exchange.gateway.registry.buckets(pool.name))
    body = xml_writer.list_buckets_xml(((bucket.name, bucket.created_at) for bucket in buckets), owner=pool.owner)
    exchange.answer(200, _XML, body)


async def _create_bucket(exchange: Exchange, admission: Admission) -> None:
    """The name is taken in the global namespace first, so that two pools never share one."""
    gateway, name, pool = exchange.gateway, admission.bucket_name, admission.pool.pool.name
    await exchange.take_turns([""])
    try:
        bucket = await _in_thread(
            exchange, lambda: gateway.registry.create_bucket(name, pool, now=time.time(), by_client=True)
        )
    except InvalidInput as error:
        raise S3Error("InvalidBucketName", str(error)) from None
    except AlreadyExists:
        owner = await _in_thread(exchange, lambda: gateway.registry.bucket(name))
        raise S3Error("BucketAlreadyOwnedByYou" if owner.pool == pool else "BucketAlreadyExists") from None
    created = False
    try:
        reply = await _pass_through(exchange, admission)
        # A bucket that was deleted from the pool is still there in the store, with its contents.
        created = reply.head.status in (200, 409)
        if created:
            admission.bucket = bucket
            versioned = admission.head.headers.get(b"x-amz-bucket-object-lock-enabled", b"").lower() == b"true"
            attributes = (("versioning", "Enabled"), ("object-lock", "Enabled")) if versioned else ()
            event = journalling.event(exchange, EventKind.BUCKET_CREATED, key="", attributes=attributes)
            await exchange.journalled([event])
    finally:
        if not created:
            await _in_thread(exchange, lambda: gateway.registry.delete_bucket(name))
    if created:
        exchange.answer(200, {"Location": f"/{name}"}, b"")
    else:
        _repeat(exchange, reply)


async def _delete_bucket(exchange: Exchange, admission: Admission) -> None:
    """The store refuses unless the bucket is empty; only then does the name become free."""
    gateway, name = exchange.gateway, admission.bucket_name
    await exchange.take_turns([""])
    reply = await _pass_through(exchange, admission)
    if reply.head.status not in (204, 404):
        _repeat(exchange, reply)
        return
    await exchange.journalled([journalling.event(exchange, EventKind.BUCKET_DELETED, key="")])
    with suppress(NotFound):  # somebody else may have been quicker; it is gone
        await _in_thread(exchange, lambda: gateway.registry.delete_bucket(name))
    exchange.answer(204, {}, b"")


async def _delete_objects(exchange: Exchange, admission: Admission) -> None:
    """Always asks the backend for the full report, since the log needs it; the client gets what it asked for."""
    request: xml.DeleteRequest = exchange.parsed
    admission.pool = await exchange.gateway.awake(admission.pool)
    await exchange.take_turns([entry.key for entry in request.entries])
    storable, refused = _storable(admission, request.entries)
    entries, changed = await _unchanged(exchange, admission, storable)
    refused.extend(changed)
    deleted: tuple[xml.Deleted, ...] = ()
    if entries:
        key = admission.key
        exchange.begin_change((entry.key, entry.version_id) for entry in entries)
        reply = await ask_signed(
            exchange.gateway,
            admission.pool,
            b"POST",
            object_path(admission.bucket_name),
            b"delete=",
            body=xml.delete_request_xml(entries),
            credentials=(key.access_key, key.secret) if key is not None else None,
            headers={b"content-type": b"application/xml"} | _bypass(admission),
        )
        if reply.head.status != 200:
            if reply.head.status < 500:
                exchange.settle()
            _repeat(exchange, reply)
            return
        answered = xml.parse_delete_result(reply.body)
        deleted = answered.deleted
        refused.extend(answered.failures)
    await exchange.journalled([_deletion(exchange, entry) for entry in deleted])
    exchange.answer(200, _XML, xml.delete_result_xml(() if request.quiet else deleted, refused))


def _storable(
    admission: Admission, entries: Sequence[xml.DeleteEntry]
) -> tuple[list[xml.DeleteEntry], list[xml.DeleteFailure]]:
    """A key that the backend would take for another one must not be deleted there."""
    kept: list[xml.DeleteEntry] = []
    refused: list[xml.DeleteFailure] = []
    for entry in entries:
        problem = key_problem(admission.pool.pool.backend, entry.key)
        if problem:
            refused.append(xml.DeleteFailure(entry.key, entry.version_id, "InvalidArgument", problem))
        else:
            kept.append(entry)
    return kept, refused


def _bypass(admission: Admission) -> dict[bytes, bytes]:
    name = b"x-amz-bypass-governance-retention"
    value = admission.head.headers.get(name)
    return {name: value} if value is not None else {}


def _deletion(exchange: Exchange, entry: xml.Deleted) -> Event:
    if entry.marker and not entry.version_id:
        return journalling.event(exchange, EventKind.DELETE_MARKER, key=entry.key, version_id=entry.marker_version_id)
    return journalling.event(exchange, EventKind.DELETE, key=entry.key, version_id=entry.version_id)


async def _unchanged(
    exchange: Exchange, admission: Admission, entries: Sequence[xml.DeleteEntry]
) -> tuple[list[xml.DeleteEntry], list[xml.DeleteFailure]]:
    """Parts the entries whose objects are still what the request says from those whose objects are not."""
    gate = asyncio.Semaphore(_PARALLEL_LOOKS)

    async def same(entry: xml.DeleteEntry) -> bool:
        if entry.last_modified is None and entry.size is None:
            return True
        async with gate:
            found = await stat(exchange.gateway, admission.pool, admission.bucket_name, entry.key, entry.version_id)
        return found is not None and _matches(found, entry.last_modified, entry.size)

    verdicts = await asyncio.gather(*(same(entry) for entry in entries))
    kept = [entry for entry, fine in zip(entries, verdicts, strict=True) if fine]
    refused = [
        xml.DeleteFailure(
            entry.key, entry.version_id, "PreconditionFailed", "The object is not the one that was meant."
        )
        for entry, fine in zip(entries, verdicts, strict=True)
        if not fine
    ]
    return kept, refused


async def _delete_if_same(exchange: Exchange, admission: Admission) -> None:
    """The identity is compared in the key's turn: no writer behind a gateway can come in between."""
    headers = admission.head.headers
    modified, size = (headers.get(name) for name in _IDENTITY_HEADERS)
    if size is not None and not (size.isdigit() and len(size) <= _MOST_SIZE_DIGITS):
        raise S3Error("InvalidArgument", "x-amz-if-match-size is not a number")
    wanted = modified.decode("latin-1") if modified is not None else None
    if wanted is not None and _time(wanted) is None:
        raise S3Error("InvalidArgument", "x-amz-if-match-last-modified-time is not a time")
    admission.pool = await exchange.gateway.awake(admission.pool)
    await exchange.take_turns([admission.object_key])
    version_id = journalling.query_value(admission, "versionId")
    found = await stat(exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id)
    if _MARKER_HEADER in headers:
        is_meant = found is None  # no object is there that could be lost; markers cannot be looked at
    else:
        is_meant = found is not None and _matches(found, wanted, int(size) if size is not None else None)
    if not is_meant:
        raise S3Error("PreconditionFailed")
    exchange.forward()


def _matches(found: Reply, last_modified: str | None, size: int | None) -> bool:
    headers = found.head.headers
    if size is not None and int(headers.get(b"content-length", b"-1")) != size:
        return False
    if last_modified is None:
        return True
    stored = _time(headers.get(b"last-modified", b"").decode("latin-1"))
    return stored is not None and stored == _time(last_modified)


def _time(text: str) -> int | None:
    """A time in HTTP's or in ISO's form; in whole seconds, since HTTP knows no others."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, OverflowError, TypeError, IndexError):  # each of them for some hostile text
            return int(parse(text).timestamp())
    return None


async def _pass_through(exchange: Exchange, admission: Admission) -> Reply:
    """The client's request as it came, to its pool's backend."""
    gateway = exchange.gateway
    admission.pool = await gateway.awake(admission.pool)
    assert admission.pool.address is not None
    return await ask(
        gateway.backends(admission.pool.address),
        exchange.whole_request(),
        head_request=False,
        seconds=gateway.settings.gateway.backend_seconds,
    )


def _repeat(exchange: Exchange, reply: Reply) -> None:
    """The backend's answer in its own words, unless it is that it has trouble."""
    if reply.head.status >= 500 and reply.head.status != 501:
        exchange.backend_failed(f"the backend answered with status {reply.head.status}")
        return
    headers = {"Content-Type": reply.head.headers.get(b"content-type", b"application/xml").decode("latin-1")}
    exchange.answer(reply.head.status, headers, reply.body)


def _in_thread(exchange: Exchange, work: Callable[[], Any]) -> Awaitable[Any]:
    return exchange.gateway.loop.run_in_executor(None, work)


_SPECIAL: dict[str, Callable[[Exchange, Admission], Coroutine[Any, Any, None]]] = {
    **bucket_settings.ANSWERS,
    "ListBuckets": _list_buckets,
    "CreateBucket": _create_bucket,
    "DeleteBucket": _delete_bucket,
    "DeleteObjects": _delete_objects,
}
