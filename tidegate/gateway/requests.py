"""Requests that the gateway makes itself, with a key of its own or in a client's name."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidegate.core import sigv4, xml
from tidegate.core.events import Pairs
from tidegate.core.s3errors import S3Error
from tidegate.gateway.backend import Reply, ask
from tidegate.gateway.directory import PoolView

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

_REGION = "us-east-1"


def object_path(bucket: str, key: str = "") -> bytes:
    return f"/{bucket}/{quote(key, safe='/-_.~')}".encode() if key else f"/{bucket}".encode()


def version_query(version_id: str) -> bytes:
    return f"versionId={quote(version_id, safe='')}".encode() if version_id else b""


async def ask_signed(
    gateway: Gateway,
    view: PoolView,
    method: bytes,
    path: bytes,
    query: bytes = b"",
    *,
    body: bytes = b"",
    credentials: tuple[str, str] | None,
    headers: dict[bytes, bytes] | None = None,
) -> Reply:
    """One whole request to the pool's running backend; without credentials it goes unsigned."""
    assert view.address is not None
    everything = {b"host": view.address.encode(), **(headers or {})}
    if body:
        everything[b"content-length"] = str(len(body)).encode()
    if credentials is not None:
        everything.update(
            sigv4.sign(
                method,
                path,
                query,
                everything,
                access_key=credentials[0],
                secret=credentials[1],
                region=_REGION,
                payload=sha256(body).hexdigest(),
                now=time.time(),
            )
        )
    target = path + b"?" + query if query else path
    lines = [method + b" " + target + b" HTTP/1.1", *(name + b": " + value for name, value in everything.items())]
    return await ask(
        gateway.backends(view.address),
        b"\r\n".join(lines) + b"\r\n\r\n" + body,
        head_request=method == b"HEAD",
        seconds=gateway.settings.gateway.backend_seconds,
    )


async def stat(gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str = "") -> Reply | None:
    """HEAD of an object, as the manager; None where there is none."""
    reply = await ask_signed(
        gateway,
        view,
        b"HEAD",
        object_path(bucket, key),
        version_query(version_id),
        credentials=(view.admin_key, view.admin_secret),
    )
    if reply.head.status in (404, 405):  # 405: it is a delete marker
        return None
    if reply.head.status != 200:
        raise S3Error("ServiceUnavailable", f"the backend does not show what it has stored ({reply.head.status})")
    return reply


async def stored_tags(
    gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str = "", *, none_if_missing: bool = False
) -> Pairs:
    query = b"tagging=" + (b"&" + version_query(version_id) if version_id else b"")
    reply = await ask_signed(
        gateway, view, b"GET", object_path(bucket, key), query, credentials=(view.admin_key, view.admin_secret)
    )
    if none_if_missing and reply.head.status in (404, 405):
        return ()
    if reply.head.status != 200:
        raise S3Error("ServiceUnavailable", f"the backend does not show an object's tags ({reply.head.status})")
    return xml.parse_tagging(reply.body)
