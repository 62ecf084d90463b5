"""Requests as bytes that a test may bend, and an independent SigV4 signer to sign them before or after bending.

The signer shares no code with the package: what both agree on is the protocol.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache

REGION = "us-east-1"
EMPTY_DIGEST = hashlib.sha256(b"").hexdigest()
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quoted(raw: bytes, keep: bytes = b"") -> bytes:
    if not raw.translate(None, bytes(UNRESERVED) + keep):
        return raw
    return b"".join(bytes([byte]) if byte in UNRESERVED or byte in keep else b"%%%02X" % byte for byte in raw)


@dataclass(slots=True)
class Request:
    """`query` is raw, without the question mark. Header order and case go to the wire as they stand."""

    method: bytes
    path: bytes
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    version: bytes = b"HTTP/1.1"

    @property
    def target(self) -> bytes:
        return self.path + (b"?" + self.query if self.query else b"")

    def raw(self) -> bytes:
        lines = [b"%s %s %s" % (self.method, self.target, self.version)]
        lines += [b"%s: %s" % pair for pair in self.headers]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def header(self, name: bytes) -> bytes:
        return next(value for known, value in self.headers if known.lower() == name.lower())

    def with_header(self, name: bytes, value: bytes) -> Request:
        """Sets the first header of that name, or adds it."""
        found, headers = False, []
        for known, old in self.headers:
            if known.lower() == name.lower() and not found:
                found = True
                headers.append((known, value))
            else:
                headers.append((known, old))
        return replace(self, headers=headers if found else [*headers, (name, value)])

    def without_header(self, name: bytes) -> Request:
        return replace(self, headers=[pair for pair in self.headers if pair[0].lower() != name.lower()])


@dataclass(frozen=True, slots=True)
class Signer:
    """Every part of the scope can be bent, for requests that are wrong and yet consistently signed."""

    access_key: str
    secret_key: str
    region: str = REGION
    service: str = "s3"
    terminator: str = "aws4_request"

    def scope(self, day: str) -> str:
        return f"{day}/{self.region}/{self.service}/{self.terminator}"

    def signature(self, stamp: str, day: str, canonical: bytes) -> str:
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{self.scope(day)}\n{hashlib.sha256(canonical).hexdigest()}"
        return self.sign_text(day, text)

    def sign(
        self,
        request: Request,
        *,
        digest: str | None = None,
        at: float | None = None,
        stamp: str = "",
        day: str = "",
        unsigned: tuple[bytes, ...] = (),
    ) -> Request:
        """Adds date, digest and Authorization. Headers named in `unsigned` are left out of the signature."""
        stamp = stamp or timestamp(at)
        day = day or stamp[:8]
        digest = hashlib.sha256(request.body).hexdigest() if digest is None else digest
        dated = replace(
            request,
            headers=[*request.headers, (b"x-amz-date", stamp.encode()), (b"x-amz-content-sha256", digest.encode())],
        )
        names, canonical = _canonical(dated, digest.encode(), unsigned)
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{self.scope(day)}, "
            f"SignedHeaders={names.decode()}, Signature={self.signature(stamp, day, canonical)}"
        )
        dated.headers.append((b"Authorization", authorization.encode()))
        return dated

    def presign(self, request: Request, *, expires: str = "300", at: float | None = None, drop: str = "") -> Request:
        """Signs in the query. `drop` leaves out one parameter, and the rest is signed without it."""
        stamp = timestamp(at)
        credential = f"{self.access_key}/{self.scope(stamp[:8])}"
        parameters = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": credential,
            "X-Amz-Date": stamp,
            "X-Amz-Expires": expires,
            "X-Amz-SignedHeaders": "host",
        }
        query = [request.query] if request.query else []
        query += [quoted(n.encode()) + b"=" + quoted(v.encode()) for n, v in parameters.items() if n != drop]
        dated = replace(request, query=b"&".join(query))
        unsigned = tuple(name for name, _ in request.headers if name.lower() != b"host")
        _, canonical = _canonical(dated, b"UNSIGNED-PAYLOAD", unsigned)
        if drop == "X-Amz-Signature":
            return dated
        return replace(
            dated, query=dated.query + b"&X-Amz-Signature=" + self.signature(stamp, stamp[:8], canonical).encode()
        )

    def chunk_signature(self, stamp: str, previous: str, chunk: bytes) -> str:
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-PAYLOAD",
                stamp,
                self.scope(stamp[:8]),
                previous,
                EMPTY_DIGEST,
                hashlib.sha256(chunk).hexdigest(),
            )
        )
        return self.sign_text(stamp[:8], text)

    def sign_text(self, day: str, text: str) -> str:
        return _hmac_hex(_signing_key(self.secret_key, day, self.region, self.service, self.terminator), text)


def timestamp(at: float | None = None) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def _canonical(request: Request, digest: bytes, unsigned: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    left_out = {name.lower() for name in unsigned} | {b"content-length", b"transfer-encoding", b"expect", b"connection"}
    headers: dict[bytes, list[bytes]] = {}
    for name, value in request.headers:
        if name.lower() not in left_out:
            headers.setdefault(name.lower(), []).append(b" ".join(value.split()))
    names = b";".join(sorted(headers))
    lines = b"".join(b"%s:%s\n" % (name, b",".join(headers[name])) for name in sorted(headers))
    pairs = [part if b"=" in part else part + b"=" for part in request.query.split(b"&") if part]
    pairs.sort(key=lambda pair: pair.partition(b"="))
    return names, b"\n".join((request.method, request.path, b"&".join(pairs), lines, names, digest))


@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str, service: str, terminator: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, terminator):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _hmac_hex(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()
