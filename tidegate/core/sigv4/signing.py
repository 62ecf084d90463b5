"""Signing requests that Tidegate itself sends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tidegate.core.sigv4.canonical import Pair, canonical_pairs, canonical_query, canonical_request
from tidegate.core.sigv4.claim import UNSIGNED_PAYLOAD
from tidegate.core.sigv4.keys import ALGORITHM, SigningKey, format_stamp, signing_key, string_to_sign

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


class Signer:
    """Signs many requests with one credential. What the requests of a second share is made once."""

    __slots__ = ("_credential",)

    def __init__(self, access_key: str, secret: str, region: str) -> None:
        self._credential = (access_key, secret, region)

    def headers(
        self, method: bytes, path: bytes, query: bytes, host: bytes, amz: list[Pair], *, payload: bytes, now: float
    ) -> bytes:
        """The lines to add to a request's head: date, payload and signature. Path and query are in their canonical
        form, `amz` are all its other x-amz-* headers, with values that have no blanks at their ends."""
        stamp, scope, start, key = _moment(*self._credential, int(now))
        signed = sorted([(b"host", host), (b"x-amz-content-sha256", payload), (b"x-amz-date", stamp), *amz])
        names = b";".join([name for name, _ in signed])
        lines = b"\n".join([name + b":" + value for name, value in signed])
        if b"  " in lines or b"\t" in lines:
            lines = b"\n".join([name + b":" + b" ".join(value.split()) for name, value in signed])
        canonical = b"%b\n%b\n%b\n%b\n\n%b\n%b" % (method, path, query, lines, names, payload)
        signature = key.sign(string_to_sign(stamp, scope, canonical)).encode()
        return b"x-amz-date: %b\r\nx-amz-content-sha256: %b\r\nauthorization: %b%b, Signature=%b\r\n" % (
            stamp,
            payload,
            start,
            names,
            signature,
        )


@lru_cache(maxsize=1024)
def _moment(access_key: str, secret: str, region: str, second: int) -> tuple[bytes, bytes, bytes, SigningKey]:
    """The timestamp of a second, the scope, the start of the authorization header, and the signing key."""
    stamp = format_stamp(second)
    scope = _scope(stamp, region)
    start = f"{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders=".encode()
    return stamp, scope.encode(), start, signing_key(secret, stamp[:8].decode(), region)


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
