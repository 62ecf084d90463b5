"""What a request claims about its sender, in the Authorization header or in a presigned query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.canonical import Pair, canonical_pairs, canonical_request, decoded
from tidegate.core.sigv4.keys import format_stamp, parse_stamp

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
STREAMING_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAMING_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
STREAMING_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
STREAMING_PAYLOADS = frozenset({STREAMING_SIGNED, STREAMING_SIGNED_TRAILER, STREAMING_UNSIGNED_TRAILER})
LONGEST_PRESIGNED_SECONDS = 604800

_NAMED_PAYLOADS = {name.encode(): name for name in (UNSIGNED_PAYLOAD, *sorted(STREAMING_PAYLOADS))}
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_LOWER_HEX = b"0123456789abcdef"
# Longer ones are parsed each time, so that no client can fill the cache with large entries.
_LONGEST_CACHED = 512
# Part of what is signed whether or not they are among the signed headers.
_SIGNED_ANYWAY = frozenset({b"x-amz-content-sha256", b"x-amz-date"})
_QUERY_NAMES = (
    b"X-Amz-Algorithm",
    b"X-Amz-Credential",
    b"X-Amz-Date",
    b"X-Amz-Expires",
    b"X-Amz-SignedHeaders",
    b"X-Amz-Signature",
)
_QUERY_MARKS = frozenset({b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Signature"})

Refusal = Callable[[str], S3Error]


class Scope(NamedTuple):
    """Who signed, and for what: the part of a claim that many requests of a client share."""

    access_key: str
    date: str
    region: str
    text: bytes
    signed_headers: tuple[bytes, ...]
    signed: frozenset[bytes]


class Claim(NamedTuple):
    """Nothing in a claim is believed before it is verified."""

    kind: Literal["header", "presigned"]
    scope: Scope
    signature: str
    stamp: bytes
    timestamp: float
    expires: int | None
    payload: str
    canonical: bytes

    @property
    def access_key(self) -> str:
        return self.scope.access_key

    @property
    def date(self) -> str:
        return self.scope.date

    @property
    def region(self) -> str:
        return self.scope.region

    @property
    def service(self) -> str:
        return "s3"

    @property
    def signed_headers(self) -> tuple[bytes, ...]:
        return self.scope.signed_headers


def parse(method: bytes, path: bytes, query: bytes, headers: Mapping[bytes, bytes]) -> Claim | None:
    """The claim of a request; None for an anonymous one."""
    pairs = canonical_pairs(query) if query else []
    authorization = headers.get(b"authorization")
    if authorization is None:
        return _parse_query(method, path, pairs, headers) if pairs else None
    if pairs and not _QUERY_MARKS.isdisjoint([name for name, _ in pairs]):
        raise S3Error(
            "InvalidArgument",
            "Only one auth mechanism allowed: either the X-Amz-* query parameters or the Authorization header.",
        )
    scope, signature = _parse_authorization(authorization)
    payload = checked_payload(headers.get(b"x-amz-content-sha256"))
    stamp, timestamp = _request_time(headers)
    if stamp[:8] != scope.text[:8]:
        raise _bad_header(f'Invalid credential date "{scope.date}": it is not the day of the request.')
    canonical = _canonical(method, path, pairs, headers, scope, payload)
    return Claim("header", scope, signature, stamp, timestamp, None, payload, canonical)


def _parse_query(method: bytes, path: bytes, pairs: list[Pair], headers: Mapping[bytes, bytes]) -> Claim | None:
    names = [name for name, _ in pairs]
    if _QUERY_MARKS.isdisjoint(names):
        if b"AWSAccessKeyId" in names:
            raise _version_two()
        return None
    for name in _QUERY_NAMES:
        if names.count(name) != 1:
            raise _bad_query(f"Query-string authentication requires the parameter {name.decode()} exactly once.")
    values = {name: decoded(value) for name, value in pairs}
    if values[b"X-Amz-Algorithm"] != b"AWS4-HMAC-SHA256":
        raise _bad_query("X-Amz-Algorithm only supports AWS4-HMAC-SHA256.")
    if b"X-Amz-Security-Token" in values:
        raise session_token()
    scope = parse_scope(values[b"X-Amz-Credential"], values[b"X-Amz-SignedHeaders"], _bad_query)
    signature = checked_signature(values[b"X-Amz-Signature"], _bad_query)
    stamp = values[b"X-Amz-Date"]
    timestamp = parse_stamp(stamp) if len(stamp) == 16 else None
    if timestamp is None:
        raise _bad_query("X-Amz-Date must be in the ISO8601 long format \"yyyyMMdd'T'HHmmss'Z'\".")
    if stamp[:8] != scope.text[:8]:
        raise _bad_query(f'Invalid credential date "{scope.date}": it is not the day of X-Amz-Date.')
    expires = _parse_expires(values[b"X-Amz-Expires"])
    stated = values.get(b"X-Amz-Content-Sha256") or headers.get(b"x-amz-content-sha256")
    payload = checked_payload(stated) if stated else UNSIGNED_PAYLOAD
    unsigned = [pair for pair in pairs if pair[0] != b"X-Amz-Signature"]
    canonical = _canonical(method, path, unsigned, headers, scope, payload)
    return Claim("presigned", scope, signature, stamp, timestamp, expires, payload, canonical)


def _parse_authorization(value: bytes) -> tuple[Scope, str]:
    """Nearly always the signature comes last, and what stands before it is the same in many requests."""
    prefix, _, signature = value.rpartition(b"Signature=")
    if len(signature) == 64 and len(prefix) <= _LONGEST_CACHED:
        return _cached_scope(prefix), checked_signature(signature, _bad_header)
    fields = _header_fields(value)
    scope = parse_scope(fields.get(b"Credential", b""), fields.get(b"SignedHeaders", b""), _bad_header)
    return scope, checked_signature(fields.get(b"Signature", b""), _bad_header)


@lru_cache(maxsize=4096)
def _cached_scope(prefix: bytes) -> Scope:
    fields = _header_fields(prefix)
    if b"Signature" in fields:
        raise _bad_header("Signature is given twice.")
    return parse_scope(fields.get(b"Credential", b""), fields.get(b"SignedHeaders", b""), _bad_header)


def _header_fields(value: bytes) -> dict[bytes, bytes]:
    scheme, _, rest = value.strip().partition(b" ")
    if scheme != b"AWS4-HMAC-SHA256":
        raise _version_two() if scheme == b"AWS" else S3Error("InvalidArgument", "Unsupported Authorization Type")
    fields: dict[bytes, bytes] = {}
    for part in rest.split(b","):
        name, _, text = part.strip().partition(b"=")
        if name in fields:
            raise _bad_header(f"{name.decode('latin-1')} is given twice.")
        if name:
            fields[name] = text
    return fields


def parse_scope(credential: bytes, names: bytes, refusal: Refusal) -> Scope:
    parts = credential.rsplit(b"/", 4)
    if len(parts) != 5 or not parts[0] or not credential.isascii():
        raise refusal('The credential must be "<access-key>/YYYYMMDD/REGION/s3/aws4_request".')
    access_key, date, region, service, end = (part.decode() for part in parts)
    if len(date) != 8 or not date.isdigit():
        raise refusal(f'Invalid credential date "{date}": it must be YYYYMMDD.')
    if service != "s3":
        raise refusal(f'Incorrect service "{service}": this endpoint belongs to "s3".')
    if end != "aws4_request":
        raise refusal(f'Incorrect terminal "{end}": this endpoint uses "aws4_request".')
    signed = tuple(names.split(b";"))
    if b"host" not in signed:
        raise refusal("The header host must be signed: name it in SignedHeaders.")
    if len(set(signed)) != len(signed):
        raise refusal("SignedHeaders names a header twice.")
    return Scope(access_key, date, region, b"/".join(parts[1:]), signed, frozenset(signed))


def checked_signature(signature: bytes, refusal: Refusal) -> str:
    if len(signature) != 64 or signature.translate(None, _LOWER_HEX):
        raise refusal("The signature must be 64 lower-case hexadecimal digits.")
    return signature.decode()


def _parse_expires(text: bytes) -> int:
    if not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= LONGEST_PRESIGNED_SECONDS:
        raise _bad_query(f"X-Amz-Expires must be a number between 1 and {LONGEST_PRESIGNED_SECONDS} (seconds).")
    return int(text)


def checked_payload(value: bytes | None) -> str:
    if value is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    if len(value) == 64 and not value.translate(None, _HEX_DIGITS):
        return value.decode()
    named = _NAMED_PAYLOADS.get(value)
    if named is None:
        allowed = ", ".join(_NAMED_PAYLOADS.values())
        raise S3Error("InvalidArgument", f"x-amz-content-sha256 must be a sha256 value or one of {allowed}.")
    return named


def _request_time(headers: Mapping[bytes, bytes]) -> tuple[bytes, float]:
    """The timestamp as it is signed, and in Unix seconds. The header x-amz-date goes before Date."""
    stamp = headers.get(b"x-amz-date")
    if stamp is None:
        stamp = headers.get(b"date", b"")
        if len(stamp) != 16:
            stamp = _stamp_of_http_date(stamp)
    timestamp = parse_stamp(stamp) if len(stamp) == 16 else None
    if timestamp is None:
        raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
    return stamp, timestamp


def _stamp_of_http_date(text: bytes) -> bytes:
    if not text.isascii() or len(text) > 64:
        return b""
    try:
        return format_stamp(parsedate_to_datetime(text.decode()).timestamp())
    except (ValueError, OverflowError, TypeError, IndexError):
        # The standard library's parser answers a hostile date with any of these.
        return b""


def _canonical(
    method: bytes, path: bytes, pairs: list[Pair], headers: Mapping[bytes, bytes], scope: Scope, payload: str
) -> bytes:
    signed = scope.signed
    for name in headers:
        if name.startswith(b"x-amz-") and name not in signed and name not in _SIGNED_ANYWAY:
            raise S3Error(
                "AccessDenied",
                "There were headers present in the request which were not signed",
                fields={"HeadersNotSigned": name.decode("latin-1")},
            )
    if b"x-amz-security-token" in headers:
        raise session_token()
    try:
        return canonical_request(method, path, pairs, headers, scope.signed_headers, payload.encode())
    except KeyError as missing:
        name = missing.args[0].decode("latin-1")
        raise S3Error("SignatureDoesNotMatch", f"The signed header {name} is not in the request.") from None


def _bad_header(why: str) -> S3Error:
    return S3Error("AuthorizationHeaderMalformed", f"The authorization header is malformed; {why}")


def _bad_query(why: str) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", why)


def session_token() -> S3Error:
    return S3Error("InvalidToken", "Session tokens are not supported: use a permanent access key.")


def _version_two() -> S3Error:
    return S3Error(
        "InvalidRequest",
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    )
