"""Where the data of a moved version is read from: a location, or, after it was moved back, the pool's own store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.conditional_reads import Span
from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.placements import Placement
from tidegate.core.sigv4.canonical import Pair
from tidegate.gateway.http.backend import BackendPool
from tidegate.gateway.requests.forwarding import object_path, request_head, version_query

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange


async def source_of(exchange: Exchange, record: Placement, span: Span) -> tuple[BackendPool, bytes]:
    """The connections to where the data lies, and the request for those bytes of it. Raises `Unavailable`."""
    gateway, admission = exchange.gateway, exchange.admitted
    # A range also where all is wanted: a store that has less than it should is noticed by its answer.
    headers: list[Pair] = [(b"range", b"bytes=%d-%d" % (span.start, span.start + span.length - 1))]
    if not record.location:
        admission.pool = view = await gateway.backends.awake(admission.pool)
        assert view.address is not None
        # A null version has no id of its own while it is current: the bucket may have no versions at all.
        version_id = record.stub_id or ("" if record.is_current else NULL_VERSION)
        path, query = object_path(record.bucket, record.key), version_query(version_id)
        return gateway.backends.at(view.address), request_head(view, b"GET", path, query, headers)
    location = await gateway.directory.location(record.location)
    if location is None:
        raise Unavailable(f"the location {record.location}, where this object lies, is not known any more")
    path = object_path(location.location.bucket, record.data_key)
    return gateway.backends.of_location(location), request_head(location, b"GET", path, b"", headers)
