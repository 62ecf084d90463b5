"""Signing requests that Tidegate itself sends."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.sigv4.canonical import canonical_pairs, canonical_query, canonical_request
from tidegate.core.sigv4.claim import UNSIGNED_PAYLOAD
from tidegate.core.sigv4.keys import ALGORITHM, format_stamp, signing_key, string_to_sign

_ALSO_SIGNED = frozenset({b"host", b"content-md5", b"content-type"})


def sign(
    method: bytes,
    path: bytes,
    query: bytes,
    headers: Mapping[bytes, bytes],
    *,
    access_key: str,
    secret: str,
    region: str,
    payload: str,
    now: float,
) -> dict[bytes, bytes]:
    """The headers to add to a request. `headers` must have `host`; every x-amz-* header is signed."""
    stamp = format_stamp(now)
    added = {b"x-amz-date": stamp, b"x-amz-content-sha256": payload.encode()}
    everything = {**headers, **added}
    signed = sorted(name for name in everything if name.startswith(b"x-amz-") or name in _ALSO_SIGNED)
    canonical = canonical_request(method, path, canonical_pairs(query), everything, signed, payload.encode())
    scope, signature = _signature(secret, region, stamp, canonical)
    names = b";".join(signed).decode()
    added[b"authorization"] = (
        f"{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}".encode()
    )
    return added


def presign(
    method: bytes,
    path: bytes,
    query: bytes,
    *,
    host: bytes,
    access_key: str,
    secret: str,
    region: str,
    expires: int,
    now: float,
) -> bytes:
    """The query of a presigned request, `query` included."""
    stamp = format_stamp(now)
    added = (
        f"X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={access_key}/{_scope(stamp, region)}"
        f"&X-Amz-Date={stamp.decode()}&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host"
    ).encode()
    pairs = canonical_pairs(query + b"&" + added)
    canonical = canonical_request(method, path, pairs, {b"host": host}, (b"host",), UNSIGNED_PAYLOAD.encode())
    _, signature = _signature(secret, region, stamp, canonical)
    return canonical_query(pairs) + b"&X-Amz-Signature=" + signature.encode()


def _scope(stamp: bytes, region: str) -> str:
    return f"{stamp[:8].decode()}/{region}/s3/aws4_request"


def _signature(secret: str, region: str, stamp: bytes, canonical: bytes) -> tuple[str, str]:
    scope = _scope(stamp, region)
    key = signing_key(secret, stamp[:8].decode(), region)
    return scope, key.sign(string_to_sign(stamp, scope.encode(), canonical))
