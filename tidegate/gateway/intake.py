"""The body of a request as it comes in: its framing, its checks, and how much is still to come."""

from __future__ import annotations

from tidegate.core.s3errors import S3Error
from tidegate.gateway.bodies import BodyCheck
from tidegate.gateway.http1 import BadMessage, ChunkedDecoder, RequestHead


class Intake:
    __slots__ = ("_checker", "_decoder", "complete", "left", "payload_bytes", "wire_bytes")

    def __init__(self, head: RequestHead, checker: BodyCheck | None) -> None:
        self._checker = checker
        self._decoder = ChunkedDecoder() if head.chunked else None
        self.left = head.content_length
        self.payload_bytes = 0
        self.wire_bytes = 0
        self.complete = False

    @property
    def bypassable(self) -> bool:
        """Whether bytes may pass without being looked at."""
        return self._checker is None and self._decoder is None

    @property
    def excess(self) -> bool:
        """Whether bytes followed the end of a chunked body: what they began cannot be found again."""
        return self._decoder is not None and self._decoder.excess

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """The payload in these bytes, and those that do not belong to this request. Raises `S3Error`."""
        rest = b""
        if self._decoder is None:
            if len(data) > self.left:
                data, rest = data[: self.left], data[self.left :]
            self.left -= len(data)
            self.complete = self.left == 0
            payload = data
        else:
            try:
                payload = self._decoder.feed(data)
            except BadMessage as error:
                raise S3Error("BadRequest", f"The chunked body is malformed: {error}", closes=True) from None
            self.complete = self._decoder.complete
        self.wire_bytes += len(data)
        self.payload_bytes += len(payload)
        if self._checker is not None:
            self._checker.feed(payload)
            if self.complete:
                self._checker.end()
        return payload, rest

    def bypassed(self, count: int) -> None:
        """So many bytes went past this object."""
        self.left -= count
        self.wire_bytes += count
        self.payload_bytes += count
