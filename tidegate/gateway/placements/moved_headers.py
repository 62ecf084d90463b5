"""Which headers of an object its record keeps, so that replies look as before."""

from __future__ import annotations

from tidegate.core.events import Pairs
from tidegate.gateway.http.http1 import ResponseHead

# What is told anew with each reply, or belongs to the connection.
_NOT_KEPT = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "content-range", "date", "etag", "keep-alive"),
        *("last-modified", "transfer-encoding", "vary", "x-amz-expiration", "x-amz-id-2", "x-amz-mp-parts-count"),
        *("x-amz-request-id", "x-amz-storage-class", "x-amz-tagging-count", "x-amz-version-id"),
        *("x-amz-replication-status", "x-amz-meta-tidegate-placement"),
    )
)


def kept_headers(head: ResponseHead) -> Pairs:
    """As the store wrote them."""
    lines = [line.partition(b":") for line in head.raw[:-4].split(b"\r\n")[1:]]
    found = [(name.decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in lines]
    return tuple(
        (name, value)
        for name, value in found
        if name.lower() not in _NOT_KEPT and not name.lower().startswith("access-control-")
    )
