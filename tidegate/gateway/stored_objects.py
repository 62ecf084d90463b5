"""What a backend shows of an object that it has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING

from tidegate.core.listings import ListedVersion
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.canonical import Pair
from tidegate.gateway.directory import PoolView
from tidegate.gateway.key_versions import key_versions
from tidegate.gateway.requests import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

CUSTOMER_KEY = b"x-amz-server-side-encryption-customer-"

Shown = Mapping[bytes, bytes]


def customer_key(headers: Mapping[bytes, bytes]) -> list[Pair]:
    """The headers of a request with the key that its object is, or is to be, encrypted with."""
    return [(name, value) for name, value in headers.items() if name.startswith(CUSTOMER_KEY)]


async def stat(
    gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str = "", *, headers: Iterable[Pair] = ()
) -> Shown | None:
    """The headers of an object; None where there is none. `headers` has the customer's key, if there is one: without it
    a store does not answer for an encrypted object, which is then looked up in a listing."""
    path, query = object_path(bucket, key), version_query(version_id)
    reply = await ask_signed(gateway, view, b"HEAD", path, query, headers=headers)
    if reply.head.status in (404, 405):  # 405: it is a delete marker
        return None
    if reply.head.status == 200:
        return reply.head.headers
    listed = await _listed(gateway, view, bucket, key, version_id) if reply.head.status in (400, 403) else None
    if listed is None:
        raise S3Error("ServiceUnavailable", f"the backend does not show what it has stored ({reply.head.status})")
    return listed


async def _listed(gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str) -> Shown | None:
    for version in await key_versions(gateway, view, bucket, key):
        if version.version_id == version_id or (not version_id and version.is_latest):
            return _as_headers(version)
    return None


def _as_headers(version: ListedVersion) -> Shown:
    """Listings do not tell of tags: there may be some."""
    texts = {
        b"etag": f'"{version.etag}"',
        b"content-length": str(version.size),
        b"last-modified": formatdate(version.last_modified, usegmt=True),
        b"x-amz-storage-class": version.storage_class,
        b"x-amz-version-id": version.version_id,
        b"x-amz-tagging-count": "1",
    }
    return {name: text.encode("latin-1") for name, text in texts.items()}
