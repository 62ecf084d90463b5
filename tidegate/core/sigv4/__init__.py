"""Signature Version 4 of S3: reading a request's claim, verifying it, and signing requests of our own.

Headers are a mapping from lower-case names to raw values, repeated ones joined by commas; path and query are the
bytes of the request line. The gateway calls `parse` and `verify` for every request, so what many requests share
(the scope and header names of a client, the timestamp of a second, signing keys) is cached.
"""

from tidegate.core.sigv4.claim import (
    STREAMING_PAYLOADS,
    STREAMING_SIGNED,
    STREAMING_SIGNED_TRAILER,
    STREAMING_UNSIGNED_TRAILER,
    UNSIGNED_PAYLOAD,
    Claim,
    checked_payload,
    parse,
)
from tidegate.core.sigv4.keys import EMPTY_SHA256, SigningKey, signing_key
from tidegate.core.sigv4.signing import Signer, presign, sign
from tidegate.core.sigv4.verification import verify

__all__ = [
    "EMPTY_SHA256",
    "STREAMING_PAYLOADS",
    "STREAMING_SIGNED",
    "STREAMING_SIGNED_TRAILER",
    "STREAMING_UNSIGNED_TRAILER",
    "UNSIGNED_PAYLOAD",
    "Claim",
    "Signer",
    "SigningKey",
    "checked_payload",
    "parse",
    "presign",
    "sign",
    "signing_key",
    "verify",
]
