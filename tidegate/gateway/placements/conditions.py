"""Conditions of writes to keys that may have been moved: the gateway compares them itself, with the key locked.

A store would compare them with the stub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.s3errors import S3Error
from tidegate.gateway.operations.stored_objects import stat

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

_ANY = "*"


async def check_conditions(exchange: Exchange) -> None:
    """Raises `S3Error` unless If-Match and If-None-Match hold for the current version."""
    admission = exchange.admitted
    admission.pool = await exchange.gateway.backends.awake(admission.pool)
    found = await stat(exchange.gateway, admission.pool, admission.bucket_name, admission.object_key)
    etag = found.get(b"etag", b"").decode("latin-1").strip('"') if found is not None else None
    wanted = admission.headers.get(b"if-match")
    if wanted is not None:
        if etag is None:
            raise S3Error("NoSuchKey", fields={"Key": admission.object_key})
        if not _names(wanted, etag):
            raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})
    unwanted = admission.headers.get(b"if-none-match")
    if unwanted is not None and etag is not None and _names(unwanted, etag):
        raise S3Error("PreconditionFailed", fields={"Condition": "If-None-Match"})


def _names(header: bytes, etag: str) -> bool:
    names = [name.strip().strip('"') for name in header.decode("latin-1").split(",")]
    return _ANY in names or etag in names
