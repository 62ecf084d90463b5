"""What browsers need to let pages of other origins use a bucket: answers to preflights, and headers on every reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.cors import preflight
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.requests.addressing import address_of, bucket_at
from tidegate.gateway.requests.directory import Directory
from tidegate.settings import GatewaySettings

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

ORIGIN = b"origin"


async def answer_preflight(exchange: Exchange, admission: Admission) -> None:
    """The bucket's rules alone decide: a browser asks before it signs anything."""
    names = (ORIGIN, b"access-control-request-method", b"access-control-request-headers")
    origin, method, headers = (admission.head.headers.get(name, b"").decode("latin-1") for name in names)
    exchange.answer(200, preflight(admission.cors, origin=origin, method=method, headers=headers), b"")


def cors_headers(head: RequestHead, directory: Directory, settings: GatewaySettings) -> dict[str, str]:
    """The headers that the reply to a page of another origin gets, whatever the reply is. Raises `Missing`."""
    origin = head.headers.get(ORIGIN)
    if not origin or head.method == b"OPTIONS":
        return {}
    try:
        address = address_of(head, directory, settings)
    except S3Error:
        return {}
    found = bucket_at(address, directory) if address.bucket else None
    if found is None or found.cors is None:
        return {}
    return found.cors.of_request(origin.decode("latin-1"), head.method.decode())
