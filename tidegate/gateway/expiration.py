"""The header `x-amz-expiration` on replies that show an object."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.expiration_header import expiration_header
from tidegate.core.lifecycle.subjects import Version
from tidegate.core.xml import parse_tagging_header
from tidegate.gateway.http1 import ResponseHead
from tidegate.gateway.requests import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.admission import Admission
    from tidegate.gateway.exchange import Exchange

_SHOW_OBJECT = frozenset(("GetObject", "HeadObject", "PutObject", "CopyObject", "CompleteMultipartUpload"))
_READS = frozenset(("GetObject", "HeadObject"))
_NANOSECOND = 1_000_000_000


def needs_tags(admission: Admission) -> bool:
    """Whether the tags of a stored object must be known before its expiry can be told."""
    return admission.rules is not None and admission.rules.needs_tags and admission.operation.name in _READS


async def look_up_tags(exchange: Exchange, admission: Admission) -> Pairs:
    admission.pool = await exchange.gateway.awake(admission.pool)
    return await stored_tags(
        exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, none_if_missing=True
    )


def header(admission: Admission, reply: ResponseHead, received: int, tags: Pairs) -> bytes:
    """The line for the reply's head, or nothing: only current versions expire by these rules."""
    rules = admission.rules
    if rules is None or reply.status not in (200, 206) or b"versionId=" in admission.head.query:
        return b""
    if admission.operation.name not in _SHOW_OBJECT:
        return b""
    headers = reply.headers
    if admission.operation.name in _READS:
        created = _time(headers.get(b"last-modified", b""))
        size = _whole_size(headers)
    else:
        created, size = time.time(), received
        written = admission.head.headers.get(b"x-amz-tagging")
        tags = parse_tagging_header(written) if written else ()
    if created is None:
        return b""
    value = expiration_header(
        rules, admission.object_key, Version("", int(created * _NANOSECOND), size=size, tags=tags)
    )
    return b"x-amz-expiration: " + value.encode() if value is not None else b""


def _whole_size(headers: dict[bytes, bytes]) -> int:
    total = headers.get(b"content-range", b"").rpartition(b"/")[2] or headers.get(b"content-length", b"0")
    return int(total) if total.isdigit() else 0


def _time(text: bytes) -> float | None:
    try:
        return parsedate_to_datetime(text.decode("latin-1")).timestamp()
    except ValueError:
        return None
