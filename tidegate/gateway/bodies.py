"""Request bodies that the gateway reads itself: how long they may be, and whether they are what they claim."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from tidegate.core import xml
from tidegate.core.chunked import ChunkVerifier, chunked_body
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import STREAMING_PAYLOADS, UNSIGNED_PAYLOAD, Claim
from tidegate.gateway.admission import Admission

_KIB = 1024

# Operations whose body is XML, with the longest one that is reasonable.
_XML_LIMITS = {
    "CompleteMultipartUpload": 4096 * _KIB,
    "CreateBucket": 64 * _KIB,
    "DeleteObjects": 4096 * _KIB,
    "PutBucketCors": 256 * _KIB,
    "PutBucketLifecycleConfiguration": 1024 * _KIB,
    "PutBucketTagging": 64 * _KIB,
    "PutBucketVersioning": 64 * _KIB,
    "PutObjectLegalHold": 64 * _KIB,
    "PutObjectLockConfiguration": 64 * _KIB,
    "PutObjectRetention": 64 * _KIB,
    "PutObjectTagging": 64 * _KIB,
}
# What is to be found in it; the others are only required to be XML with the right root.
_READERS: dict[str, Callable[[bytes], Any]] = {
    "CompleteMultipartUpload": xml.check_completed_parts,
    "CreateBucket": xml.parse_create_bucket,
    "DeleteObjects": xml.parse_delete_request,
    "PutBucketCors": lambda body: xml.check_document(body, "CORSConfiguration"),
    "PutBucketLifecycleConfiguration": lambda body: body,  # what is allowed depends on the settings
    "PutBucketTagging": lambda body: (("tagging", json.dumps(dict(xml.parse_tagging(body, xml.MOST_BUCKET_TAGS)))),),
    "PutBucketVersioning": lambda body: (("versioning", xml.parse_versioning(body)),),
    "PutObjectLegalHold": lambda body: xml.check_document(body, "LegalHold"),
    "PutObjectLockConfiguration": lambda body: xml.check_document(body, "ObjectLockConfiguration"),
    "PutObjectRetention": lambda body: xml.check_document(body, "Retention"),
    "PutObjectTagging": xml.parse_tagging,
}
_BODILESS = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))
_CHECKSUMS: dict[bytes, Callable[[bytes], bytes]] = {
    b"x-amz-checksum-crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    b"x-amz-checksum-sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    b"x-amz-checksum-sha256": lambda body: hashlib.sha256(body).digest(),
}


def limit(admission: Admission) -> int | None:
    """The longest body of an operation whose body the gateway reads; None for the data of objects.

    Raises `S3Error` where the head announces more, or a body where none belongs.
    """
    head = admission.head
    if head.method in _BODILESS:
        raise S3Error("InvalidRequest", f"{admission.operation.name} takes no request body", closes=True)
    longest = _XML_LIMITS.get(admission.operation.name)
    if longest is not None and head.content_length > longest:
        raise S3Error("MaxMessageLengthExceeded")
    if head.headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise S3Error("InvalidRequest", "the only expectation known is 100-continue")
    return longest


class BodyCheck(Protocol):
    """Watches over a body as it passes by. Both raise `S3Error`."""

    def feed(self, data: bytes) -> None: ...

    def end(self) -> None:
        """The body is over."""


class DigestCheck:
    """The body must have the SHA-256 that its head, and so its signature, names: not every backend looks."""

    __slots__ = ("_digest", "_expected")

    def __init__(self, expected: str) -> None:
        self._expected = expected
        self._digest = hashlib.sha256()

    def feed(self, data: bytes) -> None:
        self._digest.update(data)

    def end(self) -> None:
        if self._digest.hexdigest() != self._expected:
            raise S3Error("XAmzContentSHA256Mismatch")


def checker(admission: Admission) -> BodyCheck | None:
    """What the signature promises about the body, if anything."""
    payload = admission.head.headers.get(b"x-amz-content-sha256", b"").decode("latin-1")
    if payload in STREAMING_PAYLOADS:
        if admission.operation.name not in ("PutObject", "UploadPart"):
            raise S3Error("InvalidRequest", f"{admission.operation.name} does not take an aws-chunked body")
        claim, key = admission.claim, admission.signing_key
        verifier = ChunkVerifier(claim, key) if isinstance(claim, Claim) and key is not None else None
        return chunked_body(payload, admission.head.headers, verifier)
    return DigestCheck(payload.lower()) if payload and payload != UNSIGNED_PAYLOAD else None


def check_empty(admission: Admission) -> None:
    """The same for a request without a body."""
    if admission.head.method in _BODILESS:
        return
    check = checker(admission)
    if check is not None:
        check.end()


def read(admission: Admission, body: bytes) -> Any:
    """What the XML says, once the body is what its head claims. Raises `S3Error`."""
    name = admission.operation.name
    if name not in _XML_LIMITS:
        return ()
    headers = admission.head.headers
    _check_digests(headers, body)
    return _READERS[name](body)


def _check_digests(headers: dict[bytes, bytes], body: bytes) -> None:
    md5 = headers.get(b"content-md5")
    if md5 is not None and _decoded(md5) != hashlib.md5(body, usedforsecurity=False).digest():
        raise S3Error("BadDigest")
    for name, digest in _CHECKSUMS.items():
        if name in headers and _decoded(headers[name]) != digest(body):
            raise S3Error("BadDigest", f"{name.decode()} does not match the body")


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise S3Error("InvalidDigest") from None
