"""Signature Version 2, for presigned URLs and forms only: what boto3 and the AWS CLI still make for endpoints other
than AWS.

Of a URL it signs method, path, sub-resources, x-amz-* headers and an expiry time, and neither host nor payload; of a
form the policy document. Requests signed in their headers must use version 4.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

from tidegate.core.s3errors import S3Error
from tidegate.core.targets import virtual_bucket

SIGNED_PARAMETERS = frozenset(
    (
        *(
            "accelerate",
            "acl",
            "cors",
            "defaultObjectAcl",
            "delete",
            "lifecycle",
            "location",
            "logging",
            "notification",
        ),
        *("partNumber", "policy", "replication", "requestPayment", "restore", "tagging", "torrent", "uploadId"),
        *("uploads", "versionId", "versioning", "versions", "website", "object-lock", "retention", "legal-hold"),
        *("response-cache-control", "response-content-disposition", "response-content-encoding"),
        *("response-content-language", "response-content-type", "response-expires"),
    )
)
LONGEST_LIFE_SECONDS = 7 * 24 * 3600


class QueryClaim(NamedTuple):
    """What a presigned request of version 2 says about who signed it."""

    access_key: str
    expires: int
    signature: str
    string_to_sign: bytes


def parse(
    method: bytes, path: bytes, query: bytes, headers: Mapping[bytes, bytes], domains: tuple[str, ...]
) -> QueryClaim | None:
    """None unless the query bears a signature of version 2."""
    if b"AWSAccessKeyId=" not in query:
        return None
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise _malformed("The query string is not valid.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in ("AWSAccessKeyId", "Signature", "Expires"):
            if name in found:
                raise _malformed(f"{name} is given twice.")
            found[name] = value
    if len(found) != 3 or not all(found.values()):
        raise _malformed("Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters.")
    if b"authorization" in headers or b"X-Amz-Signature=" in query:
        raise S3Error("InvalidArgument", "Only one authentication mechanism is allowed.")
    expires = found["Expires"]
    if not (expires.isascii() and expires.isdigit() and len(expires) < 13):
        raise _malformed("Expires must be a Unix time.")
    bucket = virtual_bucket(headers.get(b"host", b"").decode("latin-1"), domains)
    resource = (b"/" + bucket.encode() if bucket else b"") + path + _subresources(pairs)
    text = b"\n".join(
        (
            method,
            headers.get(b"content-md5", b"").strip(),
            headers.get(b"content-type", b"").strip(),
            expires.encode(),
            _amz_headers(headers) + resource,
        )
    )
    return QueryClaim(found["AWSAccessKeyId"], int(expires), found["Signature"], text)


def verify(claim: QueryClaim, secret: str, *, now: float) -> None:
    _verify_signature(claim.string_to_sign, claim.signature, secret)
    if claim.expires < now:
        raise S3Error("AccessDenied", "Request has expired")
    if claim.expires > now + LONGEST_LIFE_SECONDS:
        raise S3Error("AccessDenied", "A presigned URL may live for a week at most")


class FormClaim(NamedTuple):
    """What a form that is signed with version 2 says about who signed it."""

    access_key: str
    signature: str
    policy: str


def parse_form(fields: Mapping[str, str]) -> FormClaim | None:
    """The claim of a form with these fields, whose names are in lower case; None unless it is signed so."""
    if "awsaccesskeyid" not in fields and "signature" not in fields:
        return None
    for name in ("policy", "AWSAccessKeyId", "signature"):
        if not fields.get(name.lower()):
            raise S3Error("InvalidArgument", f"Bucket POST must contain a field named '{name}'.")
    return FormClaim(fields["awsaccesskeyid"], fields["signature"], fields["policy"])


def verify_form(claim: FormClaim, secret: str) -> None:
    _verify_signature(claim.policy.encode(), claim.signature, secret)


def _verify_signature(text: bytes, signature: str, secret: str) -> None:
    digest = hmac.new(secret.encode(), text, hashlib.sha1).digest()
    if not hmac.compare_digest(base64.b64encode(digest), signature.encode("utf-8", "replace")):
        raise S3Error("SignatureDoesNotMatch")


def _subresources(pairs: list[tuple[str, str]]) -> bytes:
    signed = sorted((name, value) for name, value in pairs if name in SIGNED_PARAMETERS)
    if not signed:
        return b""
    return b"?" + "&".join(f"{name}={value}" if value else name for name, value in signed).encode()


def _amz_headers(headers: Mapping[bytes, bytes]) -> bytes:
    names = sorted(name for name in headers if name.startswith(b"x-amz-"))
    return b"".join(name + b":" + headers[name].strip() + b"\n" for name in names)


def _malformed(why: str) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", why)
