"""Signatures over odd requests, as an attacker with a key of his own makes them: valid for exactly the bytes sent.

S3 has a request decoded and encoded anew before it is signed, so any spelling of a path can bear a valid signature.
"""

from __future__ import annotations

import hashlib
import hmac
import time
import zlib
from base64 import b64encode
from dataclasses import replace
from urllib.parse import parse_qsl, unquote_to_bytes

from requests_on_the_wire import EMPTY_DIGEST, Request, Signer, quoted, timestamp

LIFE_SECONDS = 3000
# The parameters that version 2 signs.
_V2_PARAMETERS = frozenset(
    (
        *("accelerate", "acl", "cors", "defaultObjectAcl", "delete", "legal-hold", "lifecycle", "location", "logging"),
        *("notification", "object-lock", "partNumber", "policy", "replication", "requestPayment", "restore"),
        *("retention", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website"),
        *("response-cache-control", "response-content-disposition", "response-content-encoding"),
        *("response-content-language", "response-content-type", "response-expires"),
    )
)
_NOT_SIGNED = frozenset((b"content-length", b"transfer-encoding", b"expect", b"connection", b"user-agent"))


def sign_headers(
    signer: Signer, request: Request, digest: str = "", unsigned: frozenset[bytes] = frozenset()
) -> Request:
    """Version 4 in the Authorization header."""
    stamp = timestamp()
    digest = digest or hashlib.sha256(request.body).hexdigest()
    added = [(b"x-amz-date", stamp.encode()), (b"x-amz-content-sha256", digest.encode())]
    dated = replace(request, headers=[*request.headers, *added])
    names, canonical = _canonical(dated, digest, _NOT_SIGNED | unsigned)
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={signer.access_key}/{signer.scope(stamp[:8])}, "
        f"SignedHeaders={names.decode()}, Signature={signer.signature(stamp, stamp[:8], canonical)}"
    )
    dated.headers.append((b"Authorization", authorization.encode()))
    return dated


def presign(signer: Signer, request: Request) -> Request:
    """Version 4 in the query. The headers that must be signed, are."""
    stamp = timestamp()
    kept = frozenset(
        name.lower()
        for name, _ in request.headers
        if name.lower() != b"host" and not name.lower().startswith(b"x-amz-")
    )
    names, _ = _canonical(request, "", kept)
    parameters = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{signer.access_key}/{signer.scope(stamp[:8])}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(LIFE_SECONDS),
        "X-Amz-SignedHeaders": names.decode("latin-1"),
    }
    added = [quoted(name.encode()) + b"=" + quoted(value.encode("latin-1")) for name, value in parameters.items()]
    dated = replace(request, query=b"&".join([request.query, *added] if request.query else added))
    _, canonical = _canonical(dated, "UNSIGNED-PAYLOAD", kept)
    signature = signer.signature(stamp, stamp[:8], canonical)
    return replace(dated, query=dated.query + b"&X-Amz-Signature=" + signature.encode())


def presign_v2(signer: Signer, request: Request, bucket: bytes = b"") -> Request:
    """Version 2 in the query. `bucket` is the one that the Host header names, if it names one."""
    expires = str(int(time.time()) + LIFE_SECONDS).encode()
    pairs = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True)
    signed = sorted((name, value) for name, value in pairs if name in _V2_PARAMETERS)
    resource = (b"/" + bucket if bucket else b"") + request.path
    if signed:
        resource += b"?" + "&".join(f"{name}={value}" if value else name for name, value in signed).encode()
    values: dict[bytes, list[bytes]] = {}
    for name, value in request.headers:
        values.setdefault(name.lower(), []).append(value.strip())
    own = b"".join(b"%s:%s\n" % (name, b",".join(values[name])) for name in sorted(values) if name[:6] == b"x-amz-")
    first = [b",".join(values.get(name, [b""])) for name in (b"content-md5", b"content-type")]
    text = b"\n".join((request.method, *first, expires, own + resource))
    digest = hmac.new(signer.secret_key.encode(), text, hashlib.sha1).digest()
    added = b"AWSAccessKeyId=%s&Expires=%s&Signature=%s" % (
        quoted(signer.access_key.encode()),
        expires,
        quoted(b64encode(digest)),
    )
    return replace(request, query=request.query + b"&" + added if request.query else added)


def stream_signed(signer: Signer, request: Request, payload: bytes, *, trailer: bool) -> Request:
    """An aws-chunked body whose chunks are signed, with a signed trailer or without one."""
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    head = sign_headers(signer, _announced(request, payload, trailer=trailer), kind)
    stamp = head.header(b"x-amz-date").decode()
    previous = head.header(b"Authorization").rpartition(b"=")[2].decode()
    body = b""
    for piece in (payload, b"") if payload else (b"",):
        previous = signer.chunk_signature(stamp, previous, piece)
        body += b"%x;chunk-signature=%s\r\n%s" % (len(piece), previous.encode(), piece + b"\r\n" if piece else b"")
    if trailer:
        line = b"x-amz-checksum-crc32:" + _checksum(payload)
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-TRAILER",
                stamp,
                signer.scope(stamp[:8]),
                previous,
                hashlib.sha256(line + b"\n").hexdigest(),
            )
        )
        body += line + b"\r\nx-amz-trailer-signature:" + signer.sign_text(stamp[:8], text).encode() + b"\r\n"
    return _sized(head, body + b"\r\n")


def stream_unsigned(signer: Signer, request: Request, payload: bytes) -> Request:
    """An aws-chunked body as today's clients send it: unsigned, with a checksum in its trailer."""
    head = sign_headers(signer, _announced(request, payload, trailer=True), "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    chunk = b"%x\r\n%s\r\n" % (len(payload), payload) if payload else b""
    return _sized(head, chunk + b"0\r\nx-amz-checksum-crc32:" + _checksum(payload) + b"\r\n\r\n")


def _announced(request: Request, payload: bytes, *, trailer: bool) -> Request:
    added = [(b"Content-Encoding", b"aws-chunked"), (b"x-amz-decoded-content-length", b"%d" % len(payload))]
    if trailer:
        added.append((b"x-amz-trailer", b"x-amz-checksum-crc32"))
    return replace(request, headers=[*request.headers, *added], body=b"")


def _sized(request: Request, body: bytes) -> Request:
    return replace(request, headers=[*request.headers, (b"Content-Length", b"%d" % len(body))], body=body)


def _checksum(payload: bytes) -> bytes:
    return b64encode(zlib.crc32(payload).to_bytes(4, "big"))


def verifies(signer: Signer, request: Request) -> bool:
    """Whether the request, as a store received it, bears a signature of version 4 by this key."""
    fields = dict(part.strip().partition(b"=")[::2] for part in _authorization(request).partition(b" ")[2].split(b","))
    values = {name.lower(): value for name, value in request.headers}
    stamp = values.get(b"x-amz-date", b"").decode("latin-1")
    digest = values.get(b"x-amz-content-sha256", EMPTY_DIGEST.encode()).decode("latin-1")
    if fields.get(b"Credential", b"").decode("latin-1") != f"{signer.access_key}/{signer.scope(stamp[:8])}":
        return False
    wanted = frozenset(fields.get(b"SignedHeaders", b"").split(b";"))
    _, canonical = _canonical(request, digest, frozenset(values) - wanted)
    return fields.get(b"Signature", b"") == signer.signature(stamp, stamp[:8], canonical).encode()


def _authorization(request: Request) -> bytes:
    return next((value for name, value in request.headers if name.lower() == b"authorization"), b"")


def _canonical(request: Request, digest: str, unsigned: frozenset[bytes]) -> tuple[bytes, bytes]:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in request.headers:
        if name.lower() not in unsigned:
            headers.setdefault(name.lower(), []).append(value)
    names = b";".join(sorted(headers))
    lines = b"".join(b"%s:%s\n" % (name, b" ".join(b",".join(headers[name]).split())) for name in sorted(headers))
    pairs = sorted((_encoded(name), _encoded(value)) for name, _, value in _parts(request.query))
    query = b"&".join(b"%s=%s" % pair for pair in pairs)
    path = quoted(unquote_to_bytes(request.path), b"/") or b"/"
    return names, b"\n".join((request.method, path, query, lines, names, digest.encode()))


def _parts(query: bytes) -> list[tuple[bytes, bytes, bytes]]:
    return [part.partition(b"=") for part in query.split(b"&") if part]


def _encoded(text: bytes) -> bytes:
    return quoted(unquote_to_bytes(text.replace(b"+", b" ")))
