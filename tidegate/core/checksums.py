"""S3's checksums: which there are, and bodies compared with what their request says of them."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Protocol

from awscrt import checksums as crc

from tidegate.core.s3errors import S3Error

PREFIX = b"x-amz-checksum-"
# Headers with the prefix that hold no checksum.
_NO_VALUES = frozenset((b"x-amz-checksum-algorithm", b"x-amz-checksum-mode", b"x-amz-checksum-type"))


class Digest(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    """A running cyclic redundancy check; S3 writes it with its first byte first."""

    __slots__ = ("_of", "_size", "_value")

    def __init__(self, of: Callable[[bytes | memoryview, int], int], size: int) -> None:
        self._of = of
        self._size = size
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = self._of(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


# Each kind with the size of its value in bytes.
_KINDS: dict[bytes, tuple[Callable[[], Digest], int]] = {
    b"crc32": (lambda: _Crc(crc.crc32, 4), 4),
    b"crc32c": (lambda: _Crc(crc.crc32c, 4), 4),
    b"crc64nvme": (lambda: _Crc(crc.crc64nvme, 8), 8),
    b"sha1": (lambda: hashlib.sha1(usedforsecurity=False), 20),
    b"sha256": (hashlib.sha256, 32),
}
HEADERS = frozenset(PREFIX + kind for kind in _KINDS)


class BodyCheck(Protocol):
    """Looks at a body as it passes by. Both methods raise `S3Error`."""

    def feed(self, data: bytes) -> None: ...

    def end(self) -> None:
        """The body is over."""


class DigestCheck:
    """The body must have the digest that its request names."""

    __slots__ = ("_code", "_digest", "_expected", "_message")

    def __init__(self, digest: Digest, expected: bytes, code: str, message: str = "") -> None:
        """`code` and `message` are those of the error if it has another one."""
        self._digest = digest
        self._expected = expected
        self._code = code
        self._message = message

    def feed(self, data: bytes) -> None:
        self._digest.update(data)

    def end(self) -> None:
        if self._digest.digest() != self._expected:
            raise S3Error(self._code, self._message)


def payload_check(sha256: str) -> BodyCheck:
    """The SHA-256 that a signature covers, in hexadecimal digits."""
    return DigestCheck(hashlib.sha256(), bytes.fromhex(sha256), "XAmzContentSHA256Mismatch")


def md5_check(header: bytes) -> BodyCheck:
    expected = decoded(header)
    if len(expected) != 16:
        raise S3Error("InvalidDigest")
    return DigestCheck(hashlib.md5(usedforsecurity=False), expected, "BadDigest")


def stated(headers: Mapping[bytes, bytes]) -> tuple[bytes, bytes] | None:
    """The name and value of the checksum that a request states about its object, if it does."""
    found = [name for name in headers if name.startswith(PREFIX) and name not in _NO_VALUES]
    if not found:
        return None
    if len(found) > 1:
        raise S3Error(
            "InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum types are not allowed."
        )
    return known_name(found[0]), headers[found[0]]


def checksum_check(name: bytes, value: bytes) -> BodyCheck:
    make, size = _KINDS[name.removeprefix(PREFIX)]
    expected = decoded(value)
    if len(expected) != size:
        raise S3Error("InvalidRequest", f"Value for {name.decode()} header is invalid.")
    message = f"The {name.decode()} you specified did not match the calculated checksum."
    return DigestCheck(make(), expected, "BadDigest", message)


def known_name(name: bytes) -> bytes:
    if name not in HEADERS:
        raise S3Error("InvalidRequest", "The algorithm type you specified in x-amz-checksum- header is invalid.")
    return name


def new_digest(name: bytes) -> Digest:
    return _KINDS[name.removeprefix(PREFIX)][0]()


def encoded_size(name: bytes) -> int:
    """The length of a value of this kind in Base64."""
    return 4 * -(-_KINDS[name.removeprefix(PREFIX)][1] // 3)


def encoded(digest: bytes) -> bytes:
    return b64encode(digest)


def decoded(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise S3Error("InvalidDigest") from None
