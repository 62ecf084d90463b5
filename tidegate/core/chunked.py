"""Bodies in the aws-chunked encoding: checked, and taken out of it, as they pass by.

    SIZE[;chunk-signature=HEX]CRLF DATA CRLF ... 0[;chunk-signature=HEX]CRLF [NAME:VALUE CRLF ...] CRLF

`ChunkedBody` gives the data in the chunks, and raises as soon as a body breaks the framing, the announced length, a
signature or a checksum. It keeps nothing of the data.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

from tidegate.core import checksums
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import EMPTY_SHA256, STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER, Claim, SigningKey
from tidegate.core.trailers import Trailer, declared_name

_LONGEST_CHUNK_LINE = 256
_LONGEST_TRAILER = 4096
_MOST_DIGITS = 16
# Some clients send one CRLF more than they should, or two.
_BEARABLE_END = b"\r\n\r\n"
_MORE_AFTER_END = "There is more after the end of the aws-chunked body."
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_SIGNATURE = b"chunk-signature="

# What the parser expects next.
_LINE, _DATA, _DATA_END, _TRAILER, _END = range(5)


class ChunkVerifier:
    """The chain of signatures that begins with the one of the request's head."""

    __slots__ = ("_key", "_middle", "_previous")

    def __init__(self, claim: Claim, key: SigningKey) -> None:
        self._key = key
        self._middle = claim.stamp + b"\n" + claim.scope.text + b"\n"
        self._previous = claim.signature

    def check_chunk(self, signature: str, digest: str) -> None:
        text = f"{self._previous}\n{EMPTY_SHA256}\n{digest}"
        self._check(b"AWS4-HMAC-SHA256-PAYLOAD\n", text, signature, "a chunk")

    def check_trailer(self, signature: str, digest: str) -> None:
        self._check(b"AWS4-HMAC-SHA256-TRAILER\n", f"{self._previous}\n{digest}", signature, "the trailer")

    def _check(self, algorithm: bytes, text: str, signature: str, what: str) -> None:
        expected = self._key.sign(algorithm + self._middle + text.encode())
        if not hmac.compare_digest(expected, signature):
            raise S3Error("SignatureDoesNotMatch", f"The signature of {what} in the body does not match.")
        self._previous = expected


class ChunkedBody:
    """Feed it every byte of the body, in pieces of any size, then call `end`.

    With a verifier it checks the signatures of chunks and trailer. `trailer` is the name of the checksum that the
    trailer holds, which is compared with the data; empty when there is none.
    """

    def __init__(
        self, payload: str, decoded_length: int, verifier: ChunkVerifier | None = None, *, trailer: bytes = b""
    ) -> None:
        self.decoded_bytes = 0
        self.decoded_length = decoded_length
        self.finished = False
        self.trailer = trailer
        self._signed = payload != STREAMING_UNSIGNED_TRAILER
        self._verifier = verifier if self._signed else None
        self._lines = None if payload == STREAMING_SIGNED else Trailer(trailer, signed=self._signed)
        self._checksum = checksums.new_digest(trailer) if trailer else None
        self._state = _LINE
        self._left = 0
        self._held = bytearray()
        self._signature = ""
        self._digest = sha256()

    def feed(self, data: bytes) -> bytes:
        """The data of chunks in these bytes."""
        view = memoryview(data)
        found: list[memoryview] = []
        while view:
            if self._state == _DATA:
                piece = view[: self._left]
                self._take_data(piece)
                found.append(piece)
                view = view[len(piece) :]
            elif self._state == _END:
                view = self._feed_end(view)
            else:
                view = self._feed_line(view)
        return b"".join(found)

    @property
    def checksum(self) -> bytes:
        """The value for the trailer, once the body has ended."""
        return checksums.encoded(self._checksum.digest()) if self._checksum is not None else b""

    def end(self) -> None:
        """The body is over: was it complete?"""
        if not self.finished:
            raise S3Error("IncompleteBody", "The aws-chunked body ended before its last chunk.")
        if self._left % len(b"\r\n"):
            raise S3Error("InvalidChunk", _MORE_AFTER_END)

    def _take_data(self, piece: memoryview) -> None:
        if self._verifier is not None:
            self._digest.update(piece)
        if self._checksum is not None:
            self._checksum.update(piece)
        self._left -= len(piece)
        self.decoded_bytes += len(piece)
        if not self._left:
            self._state = _DATA_END

    def _feed_line(self, view: memoryview) -> memoryview:
        """Takes bytes up to the next newline; the line may have begun in an earlier piece."""
        limit = _LONGEST_TRAILER if self._state == _TRAILER else _LONGEST_CHUNK_LINE
        piece = bytes(view[: limit + 1 - len(self._held)])
        newline = piece.find(b"\n")
        self._held += piece if newline < 0 else piece[: newline + 1]
        if len(self._held) > limit:
            raise S3Error("InvalidChunk", f"A line of the aws-chunked framing is longer than {limit} bytes.")
        if newline < 0:
            return view[len(piece) :]
        line = bytes(self._held)
        self._held.clear()
        self._take_line(line)
        return view[newline + 1 :]

    def _take_line(self, line: bytes) -> None:
        if self._state == _LINE:
            self._begin_chunk(line)
        elif self._state == _DATA_END:
            if line != b"\r\n":
                raise S3Error("InvalidChunk", "A chunk's data is not followed by CRLF.")
            self._end_chunk()
            self._state = _LINE
        elif self._lines is None:
            if line != b"\r\n":
                raise S3Error("InvalidChunk", "The last chunk is not followed by CRLF.")
            self._finish()
        elif self._lines.take(line):
            self._end_trailer(self._lines)

    def _begin_chunk(self, line: bytes) -> None:
        if line[-2:] != b"\r\n":
            raise S3Error("InvalidChunk", "A chunk's size line does not end in CRLF.")
        digits, semicolon, extension = line[:-2].partition(b";")
        if not 0 < len(digits) <= _MOST_DIGITS or digits.translate(None, _HEX_DIGITS):
            raise S3Error("InvalidChunkSizeError", "A chunk's size is not a hexadecimal number.")
        self._signature = self._read_signature(extension) if self._signed else ""
        if not self._signed and semicolon:
            raise S3Error("InvalidChunk", "A chunk of an unsigned body has a signature.")
        size = int(digits, 16)
        if size > self.decoded_length - self.decoded_bytes:
            raise S3Error("InvalidChunk", "The body has more data than x-amz-decoded-content-length says.")
        self._left = size
        self._state = _DATA
        if size == 0:
            self._begin_end()

    @staticmethod
    def _read_signature(extension: bytes) -> str:
        signature = extension.removeprefix(_SIGNATURE)
        if len(signature) != 64 or len(extension) != 64 + len(_SIGNATURE) or signature.translate(None, _HEX_DIGITS):
            raise S3Error("InvalidChunk", "A chunk of a signed body has no well-formed chunk-signature.")
        return signature.decode()

    def _end_chunk(self) -> None:
        if self._verifier is not None:
            self._verifier.check_chunk(self._signature, self._digest.hexdigest())
            self._digest = sha256()

    def _begin_end(self) -> None:
        """After the chunk of size zero come the trailer's lines, or just an empty one."""
        if self.decoded_bytes != self.decoded_length:
            raise S3Error("IncompleteBody", "The body has less data than x-amz-decoded-content-length says.")
        self._end_chunk()
        self._state = _TRAILER

    def _end_trailer(self, trailer: Trailer) -> None:
        if self._verifier is not None:
            self._verifier.check_trailer(trailer.signature, sha256(trailer.canonical).hexdigest())
        trailer.check(self._checksum)
        self._finish()

    def _finish(self) -> None:
        self.finished = True
        self._state = _END
        self._left = len(_BEARABLE_END)

    def _feed_end(self, view: memoryview) -> memoryview:
        expected = _BEARABLE_END[-self._left :] if self._left else b""
        if bytes(view) != expected[: len(view)] or len(view) > len(expected):
            raise S3Error("InvalidChunk", _MORE_AFTER_END)
        self._left -= len(view)
        return view[:0]


def chunked_body(payload: str, headers: Mapping[bytes, bytes], verifier: ChunkVerifier | None = None) -> ChunkedBody:
    """For a request whose payload is one of the streaming kinds."""
    length = headers.get(b"x-amz-decoded-content-length", b"")
    if not length:
        raise S3Error("MissingContentLength", "You must provide the x-amz-decoded-content-length HTTP header.")
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise S3Error("InvalidArgument", "x-amz-decoded-content-length must be a number of bytes.")
    trailer = declared_name(headers.get(b"x-amz-trailer", b""))
    if payload == STREAMING_SIGNED and trailer:
        raise S3Error("InvalidRequest", f"x-amz-trailer needs a payload kind with a trailer, not {payload}.")
    return ChunkedBody(payload, int(length), verifier, trailer=trailer)
