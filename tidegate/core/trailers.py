"""The trailer of an aws-chunked body: its lines, its signature, and the checksum it carries."""

from __future__ import annotations

from tidegate.core import checksums
from tidegate.core.s3errors import S3Error

_SIGNATURE_NAME = b"x-amz-trailer-signature"


def declared_name(header: bytes) -> bytes:
    """The one checksum that an x-amz-trailer header announces, in lower case; empty when there is none."""
    name = header.strip().lower()
    if name and name not in checksums.HEADERS:
        raise S3Error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported.")
    return name


class Trailer:
    """Takes the lines one by one. `canonical` is what its signature signs."""

    def __init__(self, name: bytes, *, signed: bool) -> None:
        self.signature = ""
        self.canonical = b""
        self._name = name
        self._value: bytes | None = None
        self._signed = signed
        self._blanks = 0

    def take(self, line: bytes) -> bool:
        """True when this line, newline included, was the last.

        A trailer ends with an empty line. Some clients put one before the signature, too, and end other lines with
        a bare newline.
        """
        text = line[:-1].removesuffix(b"\r")
        if not text:
            self._blanks += 1
            if self._blanks > 2:
                raise S3Error("MalformedTrailerError", "The trailer has no signature.")
            return bool(self.signature) or not self._signed
        name, colon, value = text.partition(b":")
        name = name.lower()
        value = value.lstrip(b" ")
        if not colon or not name or self.signature:
            raise S3Error("MalformedTrailerError")
        if self._signed and name == _SIGNATURE_NAME:
            self.signature = _checked_signature(value)
        elif name != self._name:
            raise S3Error("MalformedTrailerError", "The trailer has a header that x-amz-trailer does not announce.")
        elif self._value is not None:
            raise S3Error("MalformedTrailerError")
        else:
            self._value = value
            self.canonical += name + b":" + value + b"\n"
        return False

    def check(self, digest: checksums.Digest | None) -> None:
        """Compares the announced checksum with that of the data."""
        if digest is None:
            return
        if self._value is None:
            raise S3Error("MalformedTrailerError", "The trailer lacks a header that x-amz-trailer announces.")
        name = self._name.decode()
        try:
            expected = checksums.decoded(self._value)
        except S3Error:
            raise S3Error("InvalidRequest", f"Value for {name} trailing header is invalid.") from None
        if expected != digest.digest():
            raise S3Error("BadDigest", f"The {name} in the trailer did not match the data received.")


def _checked_signature(value: bytes) -> str:
    if len(value) != 64 or value.translate(None, b"0123456789abcdef"):
        raise S3Error("MalformedTrailerError", "The trailer's signature is not 64 hexadecimal digits.")
    return value.decode()
