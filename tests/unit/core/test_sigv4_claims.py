"""Malformed, outdated and contradictory claims are refused with S3's codes; none of them is an internal error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import sigv4
from tidegate.core.s3errors import S3Error

SIGNATURE = "0123456789abcdef" * 4
CREDENTIAL = "AKID/20240229/us-east-1/s3/aws4_request"
GOOD = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature={SIGNATURE}"
HEADERS = {b"host": b"h", b"x-amz-date": b"20240229T120000Z", b"x-amz-content-sha256": b"UNSIGNED-PAYLOAD"}
QUERY = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": CREDENTIAL,
    "X-Amz-Date": "20240229T120000Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": SIGNATURE,
}


def parse_header(authorization: str, **changes: bytes | None):
    headers = {**HEADERS, b"authorization": authorization.encode("latin-1")}
    for name, value in changes.items():
        headers[name.replace("_", "-").encode()] = value
    return sigv4.parse(b"GET", b"/b/k", b"", {name: value for name, value in headers.items() if value is not None})


def parse_query(**changes: str | None):
    values = {**QUERY, **{name.replace("_", "-"): value for name, value in changes.items()}}
    query = "&".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return sigv4.parse(b"GET", b"/b/k", query.encode("latin-1"), {b"host": b"h"})


def code_of(call, *arguments, **named):
    with pytest.raises(S3Error) as refused:
        call(*arguments, **named)
    return refused.value.code


def test_request_without_credentials_is_anonymous():
    assert sigv4.parse(b"GET", b"/b/k", b"", {b"host": b"h"}) is None
    assert sigv4.parse(b"GET", b"/b", b"list-type=2&prefix=X-Amz-Signature", {b"host": b"h"}) is None


@pytest.mark.parametrize(
    "authorization",
    [
        GOOD,
        GOOD.replace(", ", ","),
        GOOD.replace(", ", " ,   "),
        f"AWS4-HMAC-SHA256 Signature={SIGNATURE}, SignedHeaders=host;x-amz-date, Credential={CREDENTIAL}",
        f"  AWS4-HMAC-SHA256   Credential={CREDENTIAL},SignedHeaders=host;x-amz-date,Signature={SIGNATURE}  ",
    ],
)
def test_header_is_read_whatever_its_spacing_and_order(authorization):
    claim = parse_header(authorization)
    assert claim.access_key == "AKID"
    assert claim.signature == SIGNATURE
    assert claim.signed_headers == (b"host", b"x-amz-date")


def test_access_key_may_hold_slashes_and_the_region_may_be_anything():
    claim = parse_header(GOOD.replace("AKID/20240229/us-east-1", "A/K/20240229/mars"))
    assert (claim.access_key, claim.region) == ("A/K", "mars")


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("AWS AKID:c2lnbmF0dXJl", "InvalidRequest"),
        ("Basic dXNlcjpwYXNz", "InvalidArgument"),
        ("", "InvalidArgument"),
        ("AWS4-ECDSA-P256-SHA256 " + GOOD.partition(" ")[2], "InvalidArgument"),
        ("AWS4-HMAC-SHA256", "AuthorizationHeaderMalformed"),
        ("AWS4-HMAC-SHA256 ", "AuthorizationHeaderMalformed"),
        (GOOD.replace("Credential=", "Credentials="), "AuthorizationHeaderMalformed"),
        (GOOD.replace("/s3/", "/ec2/"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("aws4_request", "aws3_request"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("20240229", "2024-02-29"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("20240229", "20240228"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("AKID/", "/"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("AKID", "AK\xffID"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("host;", ""), "AuthorizationHeaderMalformed"),
        (GOOD.replace("host;", "host;host;"), "AuthorizationHeaderMalformed"),
        (GOOD[:-1], "AuthorizationHeaderMalformed"),
        (GOOD.replace("abcdef", "ABCDEF"), "AuthorizationHeaderMalformed"),
        (GOOD + "," + GOOD, "AuthorizationHeaderMalformed"),
        (GOOD.replace("Signature=", f"Signature={SIGNATURE}, Signature="), "AuthorizationHeaderMalformed"),
        (GOOD.replace("SignedHeaders=host", "SignedHeaders=host;x-missing"), "SignatureDoesNotMatch"),
    ],
)
def test_malformed_authorization_header_is_refused(authorization, code):
    assert code_of(parse_header, authorization) == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"x_amz_content_sha256": None}, "InvalidRequest"),
        ({"x_amz_content_sha256": b"abc"}, "InvalidArgument"),
        ({"x_amz_content_sha256": b"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}, "InvalidArgument"),
        ({"x_amz_date": None}, "AccessDenied"),
        ({"x_amz_date": b"20240230T120000Z"}, "AccessDenied"),
        ({"x_amz_date": b"20240229T120000Z,20240229T120000Z"}, "AccessDenied"),
        ({"x_amz_date": b"00000229T120000Z"}, "AccessDenied"),
        ({"x_amz_acl": b"private"}, "AccessDenied"),
    ],
)
def test_header_that_contradicts_the_claim_is_refused(changes, code):
    assert code_of(parse_header, GOOD, **changes) == code


def test_session_token_is_refused_even_when_it_is_signed():
    signed = GOOD.replace("x-amz-date", "x-amz-date;x-amz-security-token")
    assert code_of(parse_header, signed, x_amz_security_token=b"t") == "InvalidToken"
    assert code_of(parse_query, X_Amz_Security_Token="t") == "InvalidToken"


def test_date_header_stands_in_for_a_missing_amz_date():
    authorization = GOOD.replace("x-amz-date", "date")
    claim = parse_header(authorization, x_amz_date=None, date=b"Thu, 29 Feb 2024 12:00:00 GMT")
    assert claim.stamp == b"20240229T120000Z"
    assert claim.timestamp == 1709208000


@given(st.binary(max_size=70))
def test_any_date_header_is_read_or_refused(text):
    headers = {b"host": b"h", b"x-amz-content-sha256": b"UNSIGNED-PAYLOAD", b"date": text}
    headers[b"authorization"] = GOOD.replace("x-amz-date", "date").encode()
    with pytest.raises(S3Error):
        sigv4.parse(b"GET", b"/", b"", headers)


@given(st.text("0123456789:;,+- GMTJanFebSun", max_size=40))
def test_any_text_made_of_date_parts_is_read_or_refused(text):
    headers = {b"host": b"h", b"x-amz-content-sha256": b"UNSIGNED-PAYLOAD", b"date": text.encode()}
    headers[b"authorization"] = GOOD.replace("x-amz-date", "date").encode()
    try:
        sigv4.parse(b"GET", b"/", b"", headers)
    except S3Error as refused:
        assert refused.status in (400, 403)


@given(st.binary(max_size=300), st.binary(max_size=200))
def test_any_authorization_and_query_are_read_or_refused(authorization, query):
    for value in (authorization, b"AWS4-HMAC-SHA256 " + authorization):
        try:
            sigv4.parse(b"GET", b"/", query, {**HEADERS, b"authorization": value})
        except S3Error as refused:
            assert refused.status in (400, 403)


@pytest.mark.parametrize("name", list(QUERY))
def test_presigned_query_needs_every_parameter_exactly_once(name):
    assert code_of(parse_query, **{name: None}) == "AuthorizationQueryParametersError"
    assert code_of(parse_query, **{name: QUERY[name] + f"&{name}={QUERY[name]}"}) == "AuthorizationQueryParametersError"


@pytest.mark.parametrize(
    "changes",
    [
        {"X_Amz_Algorithm": "AWS4-HMAC-SHA1"},
        {"X_Amz_Expires": "0"},
        {"X_Amz_Expires": "604801"},
        {"X_Amz_Expires": "-1"},
        {"X_Amz_Expires": "9" * 400},
        {"X_Amz_Date": "20240229"},
        {"X_Amz_Date": "20240228T120000Z"},
        {"X_Amz_SignedHeaders": "x-amz-date"},
        {"X_Amz_Credential": "AKID"},
        {"X_Amz_Signature": "zz"},
    ],
)
def test_malformed_presigned_parameter_is_refused(changes):
    assert code_of(parse_query, **changes) == "AuthorizationQueryParametersError"


@pytest.mark.parametrize("expires", ["1", "604800"])
def test_presigned_life_within_its_bounds_is_accepted(expires):
    assert parse_query(X_Amz_Expires=expires).expires == int(expires)


def test_presigned_parameter_with_an_encoded_name_is_still_seen():
    query = "&".join(f"{name.replace('-', '%2D')}={value}" for name, value in QUERY.items())
    assert sigv4.parse(b"GET", b"/", query.encode(), {b"host": b"h"}).kind == "presigned"


def test_version_two_query_is_refused_with_advice():
    query = b"AWSAccessKeyId=A&Expires=1&Signature=x"
    assert code_of(sigv4.parse, b"GET", b"/", query, {b"host": b"h"}) == "InvalidRequest"


def test_header_and_query_together_are_refused():
    query = "&".join(f"{name}={value}" for name, value in QUERY.items()).encode()
    headers = {**HEADERS, b"authorization": GOOD.encode()}
    assert code_of(sigv4.parse, b"GET", b"/", query, headers) == "InvalidArgument"
