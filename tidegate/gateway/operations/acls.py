"""ACLs, which the gateway answers itself: the store is asked only whether an object is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core import owners_acl
from tidegate.core.errors import Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.key_versions import ListingsDoNotTell, key_versions
from tidegate.gateway.placements import records
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_XML = {"Content-Type": "application/xml"}


async def get_bucket_acl(exchange: Exchange, admission: Admission) -> None:
    exchange.answer(200, _XML, owners_acl.owners_acl_xml(admission.pool.pool.owner))


async def put_bucket_acl(exchange: Exchange, admission: Admission) -> None:
    owners_acl.check_request(admission.head.headers, exchange.parsed, admission.pool.pool.owner)
    exchange.answer(200, {}, b"")


async def get_object_acl(exchange: Exchange, admission: Admission) -> None:
    await _check_object(exchange, admission)
    await get_bucket_acl(exchange, admission)


async def put_object_acl(exchange: Exchange, admission: Admission) -> None:
    owners_acl.check_request(admission.head.headers, exchange.parsed, admission.pool.pool.owner)
    await _check_object(exchange, admission)
    exchange.answer(200, {}, b"")


async def _check_object(exchange: Exchange, admission: Admission) -> None:
    """Raises `S3Error` unless the object or version is there. Its tags are asked for, since HEAD of an object that is
    encrypted with a customer's key needs the key."""
    gateway, bucket, key, version_id = (
        exchange.gateway,
        admission.bucket_name,
        admission.object_key,
        admission.version_id,
    )
    if await records.find(gateway, bucket, key, version_id) is not None:
        return
    admission.pool = view = await gateway.backends.awake(admission.pool)
    query = encoded_query([("tagging", ""), *([("versionId", version_id)] if version_id else [])])
    reply = await ask_signed(gateway, view, b"GET", object_path(bucket, key), query)
    if reply.head.status == 200:
        return
    if reply.head.status not in (404, 405):
        raise Unavailable(f"the backend does not tell whether an object is there ({reply.head.status})")
    try:
        versions = await key_versions(gateway, view, bucket, key)
    except ListingsDoNotTell:
        versions = []
    meant = (each for each in versions if (each.version_id == version_id if version_id else each.is_latest))
    marker = next((each for each in meant if each.is_marker), None)
    if marker is None:
        raise S3Error("NoSuchVersion" if version_id else "NoSuchKey", fields={"Key": key})
    shown = {"x-amz-delete-marker": "true", "x-amz-version-id": marker.version_id}
    if version_id:
        raise S3Error("MethodNotAllowed", "The version is a delete marker.", headers={**shown, "Allow": "DELETE"})
    raise S3Error("NoSuchKey", headers=shown, fields={"Key": key})
