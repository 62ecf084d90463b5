"""Verifying a claim: the time first, then the signature."""

from __future__ import annotations

import hmac

from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.claim import Claim
from tidegate.core.sigv4.keys import SigningKey, format_stamp, signing_key, string_to_sign


def verify(claim: Claim, secret: str, *, now: float, skew: float) -> SigningKey:
    """Raises S3Error unless the claim is true; the key returned also verifies the chunks of a signed body."""
    _check_time(claim, now, skew)
    scope = claim.scope
    key = signing_key(secret, scope.date, scope.region)
    expected = key.sign(string_to_sign(claim.stamp, scope.text, claim.canonical))
    if not hmac.compare_digest(expected, claim.signature):
        raise S3Error("SignatureDoesNotMatch", fields={"AWSAccessKeyId": scope.access_key})
    return key


def _check_time(claim: Claim, now: float, skew: float) -> None:
    ahead = claim.timestamp - now
    if claim.expires is None:
        if abs(ahead) > skew:
            fields = {
                "RequestTime": claim.stamp.decode(),
                "ServerTime": format_stamp(now).decode(),
                "MaxAllowedSkewMilliseconds": str(int(skew * 1000)),
            }
            raise S3Error("RequestTimeTooSkewed", fields=fields)
    elif ahead > skew:
        raise S3Error("AccessDenied", "Request is not valid yet")
    elif -ahead > claim.expires:
        raise S3Error("AccessDenied", "Request has expired", fields={"X-Amz-Expires": str(claim.expires)})
