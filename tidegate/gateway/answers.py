"""Operations that the gateway answers itself, or in which it has a part of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.core import xml_writer
from tidegate.core.errors import AlreadyExists, InvalidInput, NotFound
from tidegate.core.events import EventKind
from tidegate.core.s3errors import S3Error
from tidegate.gateway import bucket_settings, deletes, journalling
from tidegate.gateway.admission import Admission
from tidegate.gateway.backend import Reply, ask
from tidegate.gateway.bucket_states import note_created, note_found

if TYPE_CHECKING:
    from tidegate.gateway.exchange import Exchange

_XML = {"Content-Type": "application/xml"}


def answer(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """The work to be done in place of plain forwarding, if there is any."""
    special = _SPECIAL.get(admission.operation.name)
    if special is not None:
        return special(exchange, admission)
    if admission.operation.name == "DeleteObject" and deletes.is_conditional(admission):
        return deletes.delete_one_if_same(exchange, admission)
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
            if reply.head.status == 200:
                await _in_thread(exchange, lambda: note_created(gateway.tables, bucket.uid, is_versioned=versioned))
            else:
                await note_found(gateway, admission.pool, name, bucket.uid)
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
    refusal = await deletes.delete_many(exchange, admission)
    if refusal is not None:
        _repeat(exchange, refusal)


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
