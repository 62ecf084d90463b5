"""What a malformed request is to the probe: bytes to send, and what may be said to them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from requests_on_the_wire import Request, Signer


@dataclass(frozen=True, slots=True)
class Door:
    """Where the requests go: an endpoint, a key that may do everything in one bucket, and a readable object there.
    `upload_id` is a running multipart upload of `object_key`."""

    host: str
    port: int
    signer: Signer
    bucket: str
    object_key: str
    upload_id: str
    head_limit: int = 32768

    @property
    def authority(self) -> bytes:
        return f"{self.host}:{self.port}".encode()

    def request(self, method: bytes, key: bytes = b"", query: bytes = b"", body: bytes = b"") -> Request:
        """Unsigned, path style."""
        path = b"/" + self.bucket.encode() + (b"/" + key if key else b"")
        headers = [(b"Host", self.authority)]
        if body or method in (b"PUT", b"POST"):
            headers.append((b"Content-Length", b"%d" % len(body)))
        return Request(method, path, query, headers, body)

    def signed(self, method: bytes, key: bytes = b"", query: bytes = b"", body: bytes = b"") -> Request:
        return self.signer.sign(self.request(method, key, query, body))

    def honest(self) -> Request:
        return self.signed(b"GET", self.object_key.encode())


@dataclass(frozen=True, slots=True)
class Case:
    """`harmless` marks a bend that a tolerant server may rightly accept. `must_close` asks for the connection to be
    closed after the refusal, as framing can no longer be trusted. `behind` is a valid request pipelined behind the
    malformed one: an answer to it means that it was smuggled. `half_close` ends the sending side after the bytes;
    `first_may_pass` says that an honest request stands in front of the malformed part."""

    family: str
    raw: bytes
    harmless: bool = False
    must_close: bool = False
    behind: bytes = b""
    half_close: bool = False
    first_may_pass: bool = False
    seed: int = field(default=0, compare=False)

    @property
    def is_head_request(self) -> bool:
        return self.raw.startswith(b"HEAD ")


def pick_bytes(rng: random.Random, low: int, high: int) -> bytes:
    return rng.randbytes(rng.randint(low, high))
