"""The header `x-amz-expiration` on replies that show an object."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.lifecycle.expiration_header import expiration_header
from tidegate.core.lifecycle.subjects import Version
from tidegate.gateway.http1 import ResponseHead
from tidegate.gateway.requests import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.admission import Admission
    from tidegate.gateway.exchange import Exchange

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


def header(admission: Admission, reply: ResponseHead, made: Event | None, tags: Pairs) -> bytes:
    """The line for the reply's head, or nothing: only current versions expire by these rules. What a change has `made`
    is told by its event; of what is read, the reply tells all but the tags.
    """
    rules = admission.rules
    if rules is None or reply.status not in (200, 206) or b"versionId=" in admission.head.query:
        return b""
    if made is not None and made.operation is EventKind.PUT:
        version = Version("", made.ts_ns, size=made.size or 0, tags=made.tags)
    elif admission.operation.name in _READS:
        created = _time(reply.headers.get(b"last-modified", b""))
        if created is None:
            return b""
        version = Version("", int(created * _NANOSECOND), size=_whole_size(reply.headers), tags=tags)
    else:
        return b""
    value = expiration_header(rules, admission.object_key, version)
    return b"x-amz-expiration: " + value.encode() if value is not None else b""


def _whole_size(headers: dict[bytes, bytes]) -> int:
    total = headers.get(b"content-range", b"").rpartition(b"/")[2] or headers.get(b"content-length", b"0")
    return int(total) if total.isdigit() else 0


def _time(text: bytes) -> float | None:
    try:
        return parsedate_to_datetime(text.decode("latin-1")).timestamp()
    except ValueError:
        return None
