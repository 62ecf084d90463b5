"""The trailer of an aws-chunked body: its lines, its signature, and the checksum it carries."""

from __future__ import annotations

import binascii
import hashlib
import zlib
from typing import Protocol

from tidegate.core.s3errors import S3Error

_SIGNATURE_NAME = b"x-amz-trailer-signature"
_CHECKSUM_PREFIX = b"x-amz-checksum-"
_MOST_NAMES = 8


def declared_names(header: bytes) -> frozenset[bytes]:
    """The names in an x-amz-trailer header, in lower case."""
    names = frozenset(name for part in header.split(b",") if (name := part.strip().lower()))
    if len(names) > _MOST_NAMES or any(not name.startswith(_CHECKSUM_PREFIX) for name in names):
        raise S3Error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported.")
    return names


class Trailer:
    """Takes the lines one by one. `canonical` is what its signature signs."""

    def __init__(self, names: frozenset[bytes], *, signed: bool) -> None:
        self.signature = ""
        self.values: dict[bytes, bytes] = {}
        self.canonical = b""
        self._names = names
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
        if not colon or not name or name in self.values or self.signature:
            raise S3Error("MalformedTrailerError")
        if self._signed and name == _SIGNATURE_NAME:
            self.signature = _checked_signature(value)
        elif name not in self._names:
            raise S3Error("MalformedTrailerError", "The trailer has a header that x-amz-trailer does not announce.")
        else:
            self.values[name] = value
            self.canonical += name + b":" + value + b"\n"
        return False

    def check_names(self) -> None:
        if self._names != self.values.keys():
            raise S3Error("MalformedTrailerError", "The trailer lacks a header that x-amz-trailer announces.")

    def checksum(self) -> Checksum | None:
        """The checker of the first announced checksum that can be computed here."""
        for name in sorted(self._names):
            kind = name.removeprefix(_CHECKSUM_PREFIX)
            if kind == b"crc32":
                return Checksum(name, _Crc32())
            if kind in (b"sha1", b"sha256"):
                return Checksum(name, hashlib.new(kind.decode(), usedforsecurity=False))
        return None


class _Digest(Protocol):
    def update(self, data: memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


class Checksum:
    """A running checksum of the decoded data, compared in the end with the one in the trailer."""

    def __init__(self, name: bytes, digest: _Digest) -> None:
        self._name = name
        self._digest = digest

    def update(self, data: memoryview) -> None:
        self._digest.update(data)

    def check(self, trailer: Trailer) -> None:
        name = self._name.decode()
        try:
            expected = binascii.a2b_base64(trailer.values[self._name], strict_mode=True)
        except binascii.Error:
            raise S3Error("InvalidRequest", f"Value for {name} trailing header is invalid.") from None
        if expected != self._digest.digest():
            raise S3Error("BadDigest", f"The {name} in the trailer did not match the data received.")


def _checked_signature(value: bytes) -> str:
    if len(value) != 64 or value.translate(None, b"0123456789abcdef"):
        raise S3Error("MalformedTrailerError", "The trailer's signature is not 64 hexadecimal digits.")
    return value.decode()
