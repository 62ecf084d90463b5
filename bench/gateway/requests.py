"""Signed requests as bytes. The signer is botocore's: not the code that is measured."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench.gateway.load import connect
from tidegate.backend_address import host_header, is_socket

REGION = "us-east-1"
EMPTY_DIGEST = hashlib.sha256(b"").hexdigest()
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"


class _DigestSigner(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """Signs a given digest: bodies are sent from files, and hashed once for many requests."""

    def __init__(self, access_key: str, secret_key: str, digest: str) -> None:
        super().__init__(Credentials(access_key, secret_key), "s3", REGION)
        self._digest = digest

    def payload(self, request: AWSRequest) -> str:
        return self._digest


@dataclass(frozen=True, slots=True)
class Target:
    """One way to the backend. SigV4 signs the Host header, so every target has requests of its own. A host that is a
    path is a Unix socket."""

    name: str
    host: str
    port: int
    access_key: str
    secret_key: str

    @property
    def authority(self) -> str:
        return host_header(self.host if is_socket(self.host) else f"{self.host}:{self.port}").decode()

    def connect(self, timeout: float) -> socket.socket:
        return connect(self.host, self.port, timeout)

    def head(
        self, method: str, path: str, *, length: int = 0, digest: str = "", headers: Mapping[str, str] | None = None
    ) -> bytes:
        authority = self.authority
        request = AWSRequest(method, f"http://{authority}{path}", headers=dict(headers or {}))
        _DigestSigner(self.access_key, self.secret_key, digest or EMPTY_DIGEST).add_auth(request)
        request.headers["Host"] = authority
        if method == "PUT":
            request.headers["Content-Length"] = str(length)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def small_puts(self, bucket: str, count: int, size: int) -> list[bytes]:
        """Distinct keys, one body."""
        body = bytes(range(256)) * (size // 256)
        digest = hashlib.sha256(body).hexdigest()
        return [
            self.head("PUT", f"/{bucket}/small/{self.name}/{number:06}", length=size, digest=digest) + body
            for number in range(count)
        ]

    def small_gets(self, bucket: str, count: int) -> list[bytes]:
        """Of what `small_puts` of this target has written."""
        return [self.head("GET", f"/{bucket}/small/{self.name}/{number:06}") for number in range(count)]

    def large_put_heads(self, bucket: str, count: int, size: int, digest: str) -> list[bytes]:
        return [
            self.head("PUT", f"/{bucket}/large/{self.name}/{number}", length=size, digest=digest)
            for number in range(count)
        ]

    def large_gets(self, bucket: str, count: int) -> list[bytes]:
        return [self.head("GET", f"/{bucket}/large/{self.name}/{number}") for number in range(count)]
