"""Buckets: listed, made and deleted. Their names are one namespace over all pools, which the registry keeps."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tidegate.core import owners_acl, xml_writer
from tidegate.core.errors import AlreadyExists, InvalidInput
from tidegate.core.events import EventKind
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.bucket_states import note_created, note_found
from tidegate.gateway.requests.forwarding import ask_signed, object_path
from tidegate.gateway.requests.replies import repeat

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_XML = {"Content-Type": "application/xml"}
_LOCK = b"x-amz-bucket-object-lock-enabled"


async def list_buckets(exchange: Exchange, admission: Admission) -> None:
    pool = admission.pool.pool
    buckets = await _in_thread(exchange, lambda: exchange.gateway.registry.buckets(pool.name))
    body = xml_writer.list_buckets_xml(((bucket.name, bucket.created_at) for bucket in buckets), owner=pool.owner)
    exchange.answer(200, _XML, body)


async def create_bucket(exchange: Exchange, admission: Admission) -> None:
    """The name is taken in the global namespace first, so that two pools never share one."""
    gateway, name, pool = exchange.gateway, admission.bucket_name, admission.pool.pool.name
    owners_acl.check_ownership(admission.head.headers)
    await exchange.change.lock([""])
    try:
        bucket = await _in_thread(
            exchange, lambda: gateway.registry.create_bucket(name, pool, now=time.time(), by_client=True)
        )
    except InvalidInput as error:
        raise S3Error("InvalidBucketName", str(error)) from None
    except AlreadyExists:
        owner = await _in_thread(exchange, lambda: gateway.registry.bucket(name))
        raise S3Error("BucketAlreadyOwnedByYou" if owner.pool == pool else "BucketAlreadyExists") from None
    versioned = admission.head.headers.get(_LOCK, b"").lower() == b"true"
    created = False
    try:
        admission.pool = await gateway.backends.awake(admission.pool)
        lock = [(_LOCK, b"true")] if versioned else []
        reply = await ask_signed(gateway, admission.pool, b"PUT", object_path(name), headers=lock)
        # A bucket that was deleted from the pool is still there in the store, with its contents.
        created = reply.head.status in (200, 409)
        if created:
            admission.bucket = bucket
            if reply.head.status == 200:
                await _in_thread(exchange, lambda: note_created(gateway.tables, bucket.uid, is_versioned=versioned))
            else:
                await note_found(gateway, admission.pool, name, bucket.uid)
            attributes = (("versioning", "Enabled"), ("object-lock", "Enabled")) if versioned else ()
            event = event_builder.event(exchange, EventKind.BUCKET_CREATED, key="", attributes=attributes)
            exchange.change.unlock()
            await exchange.change.log([event])
    finally:
        if not created:
            await _in_thread(exchange, lambda: gateway.registry.delete_bucket(name, uid=bucket.uid))
    if created:
        exchange.answer(200, {"Location": f"/{name}"}, b"")
    else:
        repeat(exchange, reply)


async def delete_bucket(exchange: Exchange, admission: Admission) -> None:
    """The store refuses unless the bucket is empty; only then does the name become free. The name is locked
    throughout: whoever takes the freed name comes after it, and a request for the old bucket finds it gone."""
    gateway, name, bucket = exchange.gateway, admission.bucket_name, admission.bucket
    assert bucket is not None
    await exchange.change.lock([""])
    if not await _in_thread(exchange, lambda: gateway.registry.has_bucket(name, bucket.uid)):
        raise S3Error("NoSuchBucket", fields={"BucketName": name})
    if await _in_thread(exchange, lambda: gateway.registry.has_moved(bucket)):
        raise S3Error("BucketNotEmpty", fields={"BucketName": name})
    admission.pool = await gateway.backends.awake(admission.pool)
    reply = await ask_signed(gateway, admission.pool, b"DELETE", object_path(name))
    if reply.head.status not in (204, 404):
        repeat(exchange, reply)
        return
    await exchange.change.log([event_builder.event(exchange, EventKind.BUCKET_DELETED, key="")])
    await _in_thread(exchange, lambda: gateway.registry.delete_bucket(name, uid=bucket.uid))
    exchange.answer(204, {}, b"")


def _in_thread(exchange: Exchange, work: Callable[[], Any]) -> Awaitable[Any]:
    return exchange.gateway.loop.run_in_executor(None, work)
