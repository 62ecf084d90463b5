"""The body of a request as it comes in: out of its framing, checked, and how much is still to come."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.checksums import BodyCheck
from tidegate.core.chunked import ChunkedBody
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http.http1 import BadMessage, ChunkedDecoder, RequestHead


class Intake:
    """`left` counts what is still to come on the wire, `payload_bytes` what has come of the payload. `payload_length`
    is None where nobody knows it before the end. `trailer` is the name of the checksum that follows the payload, if
    one does."""

    __slots__ = ("_checks", "_chunks", "_decoder", "complete", "left", "payload_bytes", "payload_length", "wire_bytes")

    def __init__(self, head: RequestHead, chunks: ChunkedBody | None, checks: Sequence[BodyCheck]) -> None:
        self._checks = checks
        self._chunks = chunks
        self._decoder = ChunkedDecoder() if head.chunked else None
        self.left = head.content_length
        self.payload_length = chunks.decoded_length if chunks else None if head.chunked else head.content_length
        self.payload_bytes = 0
        self.wire_bytes = 0
        self.complete = False

    @property
    def bypassable(self) -> bool:
        """Whether bytes may pass without being looked at."""
        return not self._checks and self._chunks is None and self._decoder is None

    @property
    def excess(self) -> bool:
        """Whether bytes followed the end of a chunked body: what they began cannot be found again."""
        return self._decoder is not None and self._decoder.excess

    @property
    def trailer(self) -> bytes:
        return self._chunks.trailer if self._chunks is not None else b""

    @property
    def checksum(self) -> bytes:
        """The value of the trailer, once the body is complete."""
        return self._chunks.checksum if self._chunks is not None else b""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """The payload in these bytes, and those that do not belong to this request. Raises `S3Error`."""
        body, rest = self._unframed(data)
        payload = self._payload(body)
        if self.complete:
            self.end()
        return payload, rest

    def _unframed(self, data: bytes) -> tuple[bytes, bytes]:
        rest = b""
        if self._decoder is None:
            if len(data) > self.left:
                data, rest = data[: self.left], data[self.left :]
            self.left -= len(data)
            self.complete = self.left == 0
            body = data
        else:
            try:
                body = self._decoder.feed(data)
            except BadMessage as error:
                raise S3Error("BadRequest", f"The chunked body is malformed: {error}", closes=True) from None
            self.complete = self._decoder.complete
        self.wire_bytes += len(data)
        return body, rest

    def _payload(self, body: bytes) -> bytes:
        payload = self._chunks.feed(body) if self._chunks is not None else body
        self.payload_bytes += len(payload)
        for check in self._checks:
            check.feed(payload)
        return payload

    def end(self) -> None:
        """The body is over: is it what its request says? Raises `S3Error`."""
        self.complete = True
        if self._chunks is not None:
            self._chunks.end()
        for check in self._checks:
            check.end()

    def bypassed(self, count: int) -> None:
        """So many bytes went past this object."""
        self.left -= count
        self.wire_bytes += count
        self.payload_bytes += count
