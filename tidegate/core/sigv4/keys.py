"""Signing keys, timestamps and the string to sign."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = sha256(b"").hexdigest()


class SigningKey:
    """A derived key, kept as the two hash states of HMAC-SHA256: signing then costs half of a fresh HMAC."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = key.ljust(64, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(self, message: bytes) -> str:
        """The signature in hexadecimal digits."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


@lru_cache(maxsize=4096)
def signing_key(secret: str, date: str, region: str) -> SigningKey:
    key = b"AWS4" + secret.encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return SigningKey(key)


def string_to_sign(stamp: bytes, scope: bytes, canonical: bytes) -> bytes:
    return b"AWS4-HMAC-SHA256\n%b\n%b\n%b" % (stamp, scope, sha256(canonical).hexdigest().encode())


def format_stamp(unix: float) -> bytes:
    """yyyymmddThhmmssZ."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y%m%dT%H%M%SZ").encode()


@lru_cache(maxsize=1024)
def parse_stamp(stamp: bytes) -> float | None:
    """Unix seconds of yyyymmddThhmmssZ; None for anything else."""
    if len(stamp) != 16 or stamp[8:9] != b"T" or stamp[15:] != b"Z" or not (stamp[:8] + stamp[9:15]).isdigit():
        return None
    year, month, day = int(stamp[:4]), int(stamp[4:6]), int(stamp[6:8])
    try:
        moment = datetime(year, month, day, int(stamp[9:11]), int(stamp[11:13]), int(stamp[13:15]), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp()
