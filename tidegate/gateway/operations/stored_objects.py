"""What a backend shows of an object that it has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING

from tidegate.core.placements import Placement
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.canonical import Pair
from tidegate.core.xml import parse_reply
from tidegate.gateway.http.backend import Reply
from tidegate.gateway.placements import records
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

_CUSTOMER_KEY = b"x-amz-server-side-encryption-customer-"
_NAMES = ("ETag", "ObjectSize", "StorageClass")
_ATTRIBUTES = ((b"x-amz-object-attributes", ",".join(_NAMES).encode()),)

Shown = Mapping[bytes, bytes]


def customer_key(headers: Mapping[bytes, bytes]) -> list[Pair]:
    """The headers of a request with the key that its object is, or is to be, encrypted with."""
    return [(name, value) for name, value in headers.items() if name.startswith(_CUSTOMER_KEY)]


async def stat(
    gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str = "", *, headers: Iterable[Pair] = ()
) -> Shown | None:
    """The headers of an object; None where there is none. `headers` has the customer's key, if there is one: without it
    a store does not show the head of an encrypted object, but its attributes."""
    moved = await records.find(gateway, bucket, key, version_id)
    if moved is not None:
        return _of_moved(moved)
    path = object_path(bucket, key)
    reply = await ask_signed(gateway, view, b"HEAD", path, version_query(version_id), headers=headers)
    if reply.head.status in (404, 405):  # 405: it is a delete marker
        return None
    if reply.head.status == 200:
        return reply.head.headers
    if reply.head.status in (400, 403):
        query = encoded_query([("attributes", ""), *([("versionId", version_id)] if version_id else [])])
        reply = await ask_signed(gateway, view, b"GET", path, query, headers=_ATTRIBUTES)
        if reply.head.status == 200:
            return _as_headers(reply)
    raise S3Error("ServiceUnavailable", f"the backend does not show what it has stored ({reply.head.status})")


def _of_moved(record: Placement) -> Shown:
    """The headers that a store would show if the object were there."""
    shown = {
        "etag": f'"{record.etag}"',
        "content-length": str(record.size),
        "last-modified": formatdate(int(record.last_modified), usegmt=True),
        "x-amz-storage-class": record.storage_class,
        "x-amz-tagging-count": str(len(record.tags)),
        "x-amz-version-id": record.version_id,
    }
    kept = {name.lower(): value for name, value in record.headers}
    return {name.encode(): value.encode("latin-1") for name, value in (kept | shown).items()}


def _as_headers(reply: Reply) -> Shown:
    """Attributes do not tell of tags: there may be some."""
    fields = parse_reply(reply.body).fields
    etag, size, storage_class = (fields.get(name, "").encode("latin-1") for name in _NAMES)
    return {
        **reply.head.headers,
        b"etag": etag,
        b"content-length": size,
        b"x-amz-storage-class": storage_class,
        b"x-amz-tagging-count": b"1",
    }
