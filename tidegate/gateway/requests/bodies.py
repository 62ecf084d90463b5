"""What a request promises about its body, and whether one belongs to it at all."""

from __future__ import annotations

from tidegate.core import checksums
from tidegate.core.chunked import ChunkVerifier, chunked_body
from tidegate.core.operations import DATA
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import STREAMING_PAYLOADS, UNSIGNED_PAYLOAD, Claim
from tidegate.gateway.requests.admission import Admission
from tidegate.gateway.requests.form_intake import FormIntake
from tidegate.gateway.requests.intake import Intake


def intake(admission: Admission) -> Intake | None:
    """How the body is taken in; None where the operation has none. Everything that signature and headers say of it is
    checked before the backend can have it whole. Raises `S3Error`."""
    head, body = admission.head, admission.operation.body
    if body is None:
        if head.chunked or head.content_length:
            raise S3Error("InvalidRequest", f"{admission.operation.name} takes no request body", closes=True)
        return None
    if body.limit is not None and head.content_length > body.limit:
        raise S3Error("MaxMessageLengthExceeded")
    if head.headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise S3Error("InvalidRequest", "the only expectation known is 100-continue")
    payload = admission.payload
    if payload in STREAMING_PAYLOADS:
        if body is not DATA:
            raise S3Error("InvalidRequest", f"{admission.operation.name} does not take an aws-chunked body")
        claim, key = admission.claim, admission.signing_key
        verifier = ChunkVerifier(claim, key) if isinstance(claim, Claim) and key is not None else None
        return Intake(head, chunked_body(payload, head.headers, verifier), _checks(admission))
    if admission.operation.is_form:
        return FormIntake(head, _checks(admission))
    return Intake(head, None, _checks(admission))


def _checks(admission: Admission) -> list[checksums.BodyCheck]:
    headers, payload = admission.head.headers, admission.payload
    checks: list[checksums.BodyCheck] = []
    if payload and payload != UNSIGNED_PAYLOAD and payload not in STREAMING_PAYLOADS:
        checks.append(checksums.payload_check(payload))
    if b"content-md5" in headers:
        checks.append(checksums.md5_check(headers[b"content-md5"]))
    if admission.checksum is not None:
        checks.append(checksums.checksum_check(*admission.checksum))
    return checks
