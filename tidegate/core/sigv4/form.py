"""The signature of a form: version 4 signs the policy document as it stands in its field."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple

from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.claim import LONGEST_PRESIGNED_SECONDS, Scope, checked_signature, parse_scope, session_token
from tidegate.core.sigv4.keys import ALGORITHM, parse_stamp, signing_key

FIELDS = ("x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature")


class FormClaim(NamedTuple):
    """Nothing in a claim is believed before it is verified."""

    scope: Scope
    signature: str
    timestamp: float
    policy: str

    @property
    def access_key(self) -> str:
        return self.scope.access_key


def parse_form(fields: Mapping[str, str]) -> FormClaim | None:
    """The claim of a form with these fields, whose names are in lower case; None unless it is signed so."""
    if "x-amz-security-token" in fields:
        raise session_token()
    if not any(name in fields for name in FIELDS):
        return None
    for name in ("policy", *FIELDS):
        if not fields.get(name):
            raise _bad_field(f"Bucket POST must contain a field named '{name}'.")
    if fields["x-amz-algorithm"] != ALGORITHM:
        raise _bad_field(f"x-amz-algorithm must be {ALGORITHM}.")
    scope = parse_scope(fields["x-amz-credential"].encode(), b"host", _bad_field)
    signature = checked_signature(fields["x-amz-signature"].encode(), _bad_field)
    stamp = fields["x-amz-date"].encode()
    timestamp = parse_stamp(stamp) if len(stamp) == 16 else None
    if timestamp is None:
        raise _bad_field("x-amz-date must be in the ISO8601 long format \"yyyyMMdd'T'HHmmss'Z'\".")
    if stamp[:8] != scope.text[:8]:
        raise _bad_field(f'Invalid credential date "{scope.date}": it is not the day of x-amz-date.')
    return FormClaim(scope, signature, timestamp, fields["policy"])


def verify_form(claim: FormClaim, secret: str, *, now: float, skew: float) -> None:
    """Raises `S3Error` unless the claim is true."""
    if claim.timestamp - now > skew:
        raise S3Error("AccessDenied", "Request is not valid yet")
    if now - claim.timestamp > LONGEST_PRESIGNED_SECONDS:
        raise S3Error("AccessDenied", "Request has expired")
    expected = signing_key(secret, claim.scope.date, claim.scope.region).sign(claim.policy.encode())
    if not hmac.compare_digest(expected, claim.signature):
        raise S3Error("SignatureDoesNotMatch", fields={"AWSAccessKeyId": claim.access_key})


def _bad_field(why: str) -> S3Error:
    return S3Error("InvalidArgument", why)
