"""A client that speaks HTTP byte by byte, so that a test can say exactly what is on the wire, and when."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from running_service import PoolKey

EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an S3 error."""
        found = re.search(rb"<Code>(\w+)</Code>", self.body)
        return found[1].decode() if found else ""


class Wire:
    """One connection. Everything waits at most `timeout` seconds for the other side."""

    def __init__(
        self, url: str, *, timeout: float = 30, source: str = "", tls: ssl.SSLContext | None = None, name: str = ""
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.authority = parts.netloc
        bind = (source, 0) if source else None
        self.socket: socket.socket = socket.create_connection((parts.hostname, parts.port), timeout, bind)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=name or parts.hostname)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, request: bytes, *, to_head: bool = False) -> Answer:
        self.send(request)
        return self.answer(to_head=to_head)

    def answer(self, *, to_head: bool = False) -> Answer:
        """The next final response; one of status 100 is skipped."""
        while True:
            head = self.head()
            if head.status != 100:
                break
        if to_head or head.status in (204, 304):
            return head
        if head.headers.get("transfer-encoding") == "chunked":
            return Answer(head.status, head.headers, self._chunks())
        if "content-length" in head.headers:
            return Answer(head.status, head.headers, self.read(int(head.headers["content-length"])))
        return Answer(head.status, head.headers, self.rest())

    def head(self) -> Answer:
        """Status and headers of the next response, of status 100, too."""
        text = self._until(b"\r\n\r\n")
        first, *lines = text[:-4].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return Answer(int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}, b"")

    def read(self, count: int) -> bytes:
        pieces = [self._read[:count]]
        have, self._read = len(pieces[0]), self._read[count:]
        while have < count:
            piece = self.socket.recv(min(1 << 20, count - have))
            if not piece:
                raise ConnectionError(f"the connection ended after {have} of {count} bytes")
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)

    def rest(self) -> bytes:
        """What comes until the other side closes the connection, orderly or not."""
        pieces, self._read = [self._read], b""
        try:
            while piece := self.socket.recv(1 << 20):
                pieces.append(piece)
        except ConnectionResetError:
            pass  # closed all the same
        return b"".join(pieces)

    @property
    def closed(self) -> bool:
        """Waits for the end of the connection; False when more bytes come instead."""
        return self.rest() == b""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._read:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError(f"the connection ended after {self._read!r}")
            self._read += piece
        end = self._read.index(mark) + len(mark)
        found, self._read = self._read[:end], self._read[end:]
        return found

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._until(b"\r\n").split(b";")[0], 16):
            body += self.read(size)
            self._until(b"\r\n")
        self._until(b"\r\n")
        return body


def request(
    url: str,
    key: PoolKey | None,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    headers: dict[str, str] | None = None,
    host: str = "",
    payload: str = "",
    version: str = "HTTP/1.1",
    length: int | None = None,
) -> bytes:
    """A request as bytes, signed when there is a key. `payload` replaces the digest of the body; `length` its length
    (-1: none is sent)."""
    return (
        request_head(
            url,
            key,
            method,
            path,
            headers=headers,
            host=host,
            payload=payload or hashlib.sha256(body).hexdigest(),
            version=version,
            length=len(body) if length is None else length,
        )
        + body
    )


def request_head(
    url: str,
    key: PoolKey | None,
    method: str,
    path: str,
    *,
    headers: dict[str, str] | None = None,
    host: str = "",
    payload: str = EMPTY,
    version: str = "HTTP/1.1",
    length: int = 0,
) -> bytes:
    host = host or urlsplit(url).netloc
    signed = AWSRequest(method, f"http://{host}{path}", headers={**(headers or {}), "X-Amz-Content-SHA256": payload})
    if key is not None:
        _Signer(key, payload).add_auth(signed)
    lines = [
        f"{method} {path} {version}",
        f"Host: {host}",
        *(f"{name}: {value}" for name, value in signed.headers.items()),
    ]
    if length >= 0 and (length or method in ("PUT", "POST")):
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class _Signer(S3SigV4Auth):
    """Signs whatever payload it is told."""

    def __init__(self, key: PoolKey, payload: str) -> None:
        super().__init__(Credentials(key.access_key, key.secret_key), "s3", "us-east-1")
        self._payload = payload

    def payload(self, request: AWSRequest) -> str:
        return self._payload


def presigned(url: str, key: PoolKey, method: str, path: str, *, seconds: int = 60) -> bytes:
    """A request whose signature stands in its query."""
    host = urlsplit(url).netloc
    signed = AWSRequest(method, f"http://{host}{path}")
    S3SigV4QueryAuth(Credentials(key.access_key, key.secret_key), "s3", "us-east-1", expires=seconds).add_auth(signed)
    target = signed.url.partition(host)[2]
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode()


def signed_chunks(key: PoolKey, head: bytes, chunks: list[bytes]) -> bytes:
    """The body of a STREAMING-AWS4-HMAC-SHA256-PAYLOAD request with this head, as its specification words it."""
    previous = _found(rb"Signature=([0-9a-f]{64})", head)
    stamp = _found(rb"(?i)X-Amz-Date: (\w+)", head)
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    secret = f"AWS4{key.secret_key}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    body = b""
    for chunk in (*chunks, b""):
        parts = ("AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, previous, EMPTY, hashlib.sha256(chunk).hexdigest())
        previous = hmac.digest(secret, "\n".join(parts).encode(), "sha256").hex()
        body += b"%x;chunk-signature=%b\r\n%b\r\n" % (len(chunk), previous.encode(), chunk)
    return body


def signed_length(sizes: list[int]) -> int:
    """The length of such a body."""
    return sum(len(f"{size:x}") + len(";chunk-signature=") + 64 + 4 + size for size in [*sizes, 0])


def _found(pattern: bytes, text: bytes) -> str:
    match = re.search(pattern, text)
    assert match is not None
    return match[1].decode()


def until(condition, seconds: float = 90, what: str = "") -> None:
    """Waits for something that comes about by itself."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what or "it did not come about in time"
        time.sleep(0.05)
