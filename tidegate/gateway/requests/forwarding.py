"""Requests to backends: built from what a client's request means, or from what the gateway itself wants to know.

Nothing of a client's bytes but the body reaches a backend: path, query and headers are written anew and signed with the
pool's own credential, so there is nothing that two parties could read differently.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, quote_from_bytes, urlencode

from tidegate.backend_address import host_header
from tidegate.core import checksums, xml
from tidegate.core.errors import Unavailable
from tidegate.core.events import Pairs
from tidegate.core.operations import passed_on
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import STREAMING_UNSIGNED_TRAILER, Signer
from tidegate.core.sigv4.canonical import Pair
from tidegate.gateway.http.backend import Reply, ask
from tidegate.gateway.placements import records
from tidegate.gateway.requests.directory import PoolView

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange
    from tidegate.gateway.requests.intake import Intake

_UNSIGNED = b"UNSIGNED-PAYLOAD"
_TRAILER = STREAMING_UNSIGNED_TRAILER.encode()
_CODING = b"aws-chunked"
CONDITIONS_OF_WRITES = frozenset((b"if-match", b"if-none-match"))


def object_path(bucket: str, key: str = "") -> bytes:
    return b"/" + bucket.encode() + (b"/" + quote_from_bytes(key.encode(), safe="/~").encode() if key else b"")


def encoded_query(parameters: Iterable[tuple[str, str]]) -> bytes:
    """In the canonical form of signatures: sorted, and with a value for every name."""
    return "&".join(
        [f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(parameters)]
    ).encode()


class Endpoint(Protocol):
    """Where a request goes, and with which credential: a pool's backend or a location."""

    @property
    def address(self) -> str | None: ...

    @property
    def signer(self) -> Signer: ...


def request_head(
    view: Endpoint,
    method: bytes,
    path: bytes,
    query: bytes = b"",
    headers: Iterable[Pair] = (),
    *,
    framing: bytes = b"",
    payload: bytes = _UNSIGNED,
) -> bytes:
    """A signed head for a running backend or a location. `framing` are the lines that tell where the body ends."""
    assert view.address is not None
    host = host_header(view.address)
    amz: list[Pair] = []
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n%b" % (method, path + b"?" + query if query else path, host, framing)]
    for name, value in headers:
        lines.append(b"%b: %b\r\n" % (name, value))
        if name.startswith(b"x-amz-"):
            amz.append((name, value))
    lines.append(view.signer.headers(method, path, query, host, amz, payload=payload, now=time.time()))
    lines.append(b"\r\n")
    return b"".join(lines)


class ForwardedRequest:
    """A client's request as its backend gets it. `start` goes before the body and `end` after it."""

    __slots__ = ("_admission", "_framing", "_headers", "_intake", "_payload", "is_chunked", "start")

    def __init__(self, admission: Admission, intake: Intake | None, document: bytes | None = None) -> None:
        """`document` is the whole body where the gateway has written it anew."""
        self._admission = admission
        self._intake = intake
        self.start = b""
        self.is_chunked = False
        self._headers = _headers(admission)
        self._payload = _UNSIGNED
        length = len(document) if document is not None else intake.payload_length if intake is not None else 0
        if document is None and intake is not None and intake.trailer:
            length = self._frame_with_trailer(intake.trailer, intake.payload_length or 0)
        if length is None:
            self.is_chunked = True
            self._framing = b"transfer-encoding: chunked\r\n"
        else:
            self._framing = _length_line(admission.operation.backend_method.encode(), length)

    def _frame_with_trailer(self, name: bytes, length: int) -> int:
        """One chunk and the trailer, which is known only in the end; the backend keeps the checksum with the object."""
        self._payload = _TRAILER
        self._headers += [(b"x-amz-trailer", name), (b"x-amz-decoded-content-length", b"%d" % length)]
        if length:
            self.start = b"%x\r\n" % length
        return len(self.start) + length + len(_end_with_trailer(name, b"=" * checksums.encoded_size(name), length))

    def head(self, view: PoolView) -> bytes:
        """Signed now, for the backend that runs now."""
        admission = self._admission
        return request_head(
            view,
            admission.operation.backend_method.encode(),
            object_path(admission.bucket_name, admission.object_key),
            _query(admission),
            self._headers,
            framing=self._framing,
            payload=self._payload,
        )

    @property
    def end(self) -> bytes:
        intake = self._intake
        if self._payload is not _TRAILER or intake is None:
            return b""
        return _end_with_trailer(intake.trailer, intake.checksum, intake.payload_length or 0)


def _length_line(method: bytes, length: int) -> bytes:
    """Methods that usually have a body say so when it is empty, too."""
    return b"content-length: %d\r\n" % length if length or method in (b"PUT", b"POST") else b""


def _end_with_trailer(name: bytes, value: bytes, length: int) -> bytes:
    return (b"\r\n" if length else b"") + b"0\r\n" + name + b":" + value + b"\r\n\r\n"


def _query(admission: Admission) -> bytes:
    subresource, parameters = admission.operation.subresource, admission.parameters
    if not subresource or subresource in parameters:
        return encoded_query(parameters.items()) if parameters else b""
    return encoded_query([(subresource, ""), *parameters.items()])


def _headers(admission: Admission) -> list[Pair]:
    given = admission.headers
    operation = admission.operation
    headers = [(name, value.strip()) for name, value in passed_on(operation, given)]
    if admission.before_commit is not None and not operation.is_internal:  # which compares those of clients itself
        headers = [(name, value) for name, value in headers if name not in CONDITIONS_OF_WRITES]
    if operation.has_metadata:
        if admission.tags:
            headers.append((b"x-amz-tagging", urlencode(admission.tags).encode()))
        if b"content-encoding" in given:
            headers += _content_encoding(given[b"content-encoding"])
    if admission.copy_source is not None:
        source = admission.copy_source
        value = object_path(source.bucket, source.key)
        headers.append(
            (b"x-amz-copy-source", value + b"?" + version_query(source.version_id) if source.version_id else value)
        )
    if admission.checksum is not None:
        headers.append(admission.checksum)
    return headers


def _content_encoding(value: bytes) -> list[Pair]:
    """That of the object; aws-chunked was the request's, and is gone."""
    kept = [coding.strip() for coding in value.split(b",") if coding.strip().lower() != _CODING]
    return [(b"content-encoding", b",".join(kept))] if kept else []


def version_query(version_id: str) -> bytes:
    return encoded_query((("versionId", version_id),)) if version_id else b""


async def ask_signed(
    gateway: Gateway,
    view: PoolView,
    method: bytes,
    path: bytes,
    query: bytes = b"",
    *,
    body: bytes = b"",
    headers: Iterable[Pair] = (),
) -> Reply:
    """One whole request of the gateway's own to the pool's running backend."""
    head = request_head(view, method, path, query, headers, framing=_length_line(method, len(body)))
    assert view.address is not None
    return await ask(
        gateway.backends.at(view.address),
        head + body,
        head_request=method == b"HEAD",
        seconds=gateway.settings.gateway.backend_seconds,
    )


async def read_bucket(exchange: Exchange, query: Mapping[str, str]) -> bytes:
    """The store's answer to a question about the exchange's bucket. The pool is woken if it sleeps; a connection that
    broke says nothing, and the question is asked once more."""
    gateway, admission = exchange.gateway, exchange.admitted
    path, asked = object_path(admission.bucket_name), encoded_query(query.items())
    exchange.wait(gateway.patience_seconds)
    if admission.pool.address is None:
        admission.pool = await gateway.backends.awake(admission.pool)
    try:
        reply = await ask_signed(gateway, admission.pool, b"GET", path, asked)
    except Unavailable:
        connection, admission.pool = await gateway.backends.connect(admission.pool)
        gateway.backends.at(admission.pool.address or "").give_back(connection)
        reply = await ask_signed(gateway, admission.pool, b"GET", path, asked)
    if reply.head.status == 404:
        raise S3Error("NoSuchBucket", fields={"BucketName": admission.bucket_name})
    if reply.head.status != 200:
        raise Unavailable(f"the backend answered a listing with status {reply.head.status}")
    return reply.body


async def stored_tags(
    gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str = "", *, none_if_missing: bool = False
) -> Pairs:
    moved = await records.find(gateway, bucket, key, version_id)
    if moved is not None:
        return moved.tags
    query = encoded_query([("tagging", ""), *([("versionId", version_id)] if version_id else [])])
    reply = await ask_signed(gateway, view, b"GET", object_path(bucket, key), query)
    if none_if_missing and reply.head.status in (404, 405):
        return ()
    if reply.head.status != 200:
        raise S3Error("ServiceUnavailable", f"the backend does not show an object's tags ({reply.head.status})")
    return xml.parse_tagging(reply.body)
