"""What replies that show an object say beside the backend's words: when it expires, and how its replication stands."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests import expiration, replication_status
from tidegate.gateway.requests.forwarding import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange


def look_up(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """What is to be done before a read where the reply will not tell all; None if that is nothing."""
    tags = expiration.needs_tags(admission) or replication_status.needs_tags(admission)
    records = replication_status.is_read_before(exchange, admission)
    return _look_up(exchange, admission, tags=tags, records=records) if tags or records else None


async def _look_up(exchange: Exchange, admission: Admission, *, tags: bool, records: bool) -> None:
    gateway = exchange.gateway
    if tags:
        admission.pool = await gateway.backends.awake(admission.pool)
        which = (admission.bucket_name, admission.object_key, admission.version_id)
        exchange.tags = await stored_tags(gateway, admission.pool, *which, none_if_missing=True)
    if records:
        exchange.noted = await replication_status.read_before(exchange, admission)
    exchange.forward()


def of_read(exchange: Exchange, reply: ResponseHead) -> bytes:
    """Lines for the head of a reply that shows an object."""
    lines = (expiration.of_read(exchange, reply), replication_status.of_read(exchange, reply))
    return b"\r\n".join(line for line in lines if line)
