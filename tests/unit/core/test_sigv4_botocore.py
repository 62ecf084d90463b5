"""What botocore's own signers sign is accepted, and nothing that differs from it by one element is."""

from urllib.parse import quote

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import sigv4
from tidegate.core.s3errors import S3Error

HOST = "gate.example:9000"
CREDENTIALS = Credentials("AKIDEXAMPLE", "se/cret+key")

keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=40)
words = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
queries = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10), keys, max_size=4)
header_names = st.sampled_from(["x-amz-meta-a", "x-amz-meta-b2", "x-amz-acl", "content-type", "range", "x-amz-tagging"])
methods = st.sampled_from(["GET", "PUT", "HEAD", "POST", "DELETE"])


def split_target(url: str) -> tuple[bytes, bytes]:
    target = url.split(HOST, 1)[1]
    path, _, query = target.partition("?")
    return path.encode(), query.encode()


def signed_by_header(method, key, query, headers, body=b""):
    """The request as it goes onto the wire: its prepared URL and headers."""
    request = AWSRequest(
        method=method, url=f"http://{HOST}/bucket/{quote(key, safe='/~')}", params=query, headers=headers, data=body
    )
    botocore.auth.S3SigV4Auth(CREDENTIALS, "s3", "eu-x-1").add_auth(request)
    prepared = request.prepare()
    lower = {name.lower().encode(): _bytes(value) for name, value in prepared.headers.items()}
    lower.setdefault(b"host", HOST.encode())
    path, raw_query = split_target(prepared.url)
    return method.encode(), path, raw_query, lower


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode("latin-1")


def signed_by_query(method, key, query, expires=600):
    encoded = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in query.items())
    url = f"http://{HOST}/bucket/{quote(key, safe='/~')}" + (f"?{encoded}" if encoded else "")
    request = AWSRequest(method=method, url=url)
    botocore.auth.S3SigV4QueryAuth(CREDENTIALS, "s3", "eu-x-1", expires=expires).add_auth(request)
    path, raw_query = split_target(request.prepare().url)
    return method.encode(), path, raw_query, {b"host": HOST.encode()}


def check(parts, secret=CREDENTIALS.secret_key):
    claim = sigv4.parse(*parts)
    assert claim is not None
    sigv4.verify(claim, secret, now=claim.timestamp, skew=900)
    return claim


@given(methods, keys, queries, st.dictionaries(header_names, words, max_size=4))
def test_header_signature_of_botocore_is_accepted(method, key, query, headers):
    claim = check(signed_by_header(method, key, query, headers))
    assert (claim.kind, claim.access_key, claim.region) == ("header", "AKIDEXAMPLE", "eu-x-1")


@given(methods, keys, queries)
def test_presigned_query_of_botocore_is_accepted(method, key, query):
    claim = check(signed_by_query(method, key, query))
    assert (claim.kind, claim.payload, claim.expires) == ("presigned", "UNSIGNED-PAYLOAD", 600)


@given(keys, queries, st.dictionaries(header_names, words, max_size=3))
def test_own_signature_equals_that_of_botocore(key, query, headers):
    method, path, raw_query, wire = signed_by_header("PUT", key, query, headers, b"some data")
    claim = sigv4.parse(method, path, raw_query, wire)
    plain = {name: value for name, value in wire.items() if name in claim.signed_headers}
    added = sigv4.sign(
        *(method, path, raw_query, plain),
        access_key=CREDENTIALS.access_key,
        secret=CREDENTIALS.secret_key,
        region="eu-x-1",
        payload=claim.payload,
        now=claim.timestamp,
    )
    if set(claim.signed_headers) == {*plain, *added} - {b"authorization", b"range"}:
        assert added[b"authorization"] == wire[b"authorization"]
    check((method, path, raw_query, {**plain, **added}))


@given(methods, keys, queries)
def test_own_presigned_query_is_accepted(method, key, query):
    encoded = "&".join(f"{quote(name)}={quote(value)}" for name, value in query.items()).encode()
    path = b"/bucket/" + quote(key).encode()
    signed = sigv4.presign(
        *(method.encode(), path, encoded),
        host=b"h",
        access_key="A",
        secret="S",
        region="r",
        expires=60,
        now=1.7e9,
    )
    check((method.encode(), path, signed, {b"host": b"h"}), "S")


BASE = signed_by_header("PUT", "some/key ä", {"tagging": "", "versionId": "3"}, {"x-amz-meta-a": "one"}, b"data")


def refused_code(parts):
    with pytest.raises(S3Error) as refused:
        check(parts)
    assert refused.value.status in (400, 403)
    return refused.value.code


def test_changed_method_is_refused():
    assert refused_code((b"GET", *BASE[1:])) == "SignatureDoesNotMatch"


def test_changed_path_is_refused():
    assert refused_code((BASE[0], BASE[1] + b"x", *BASE[2:])) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("query", [b"", b"tagging&versionId=4", b"tagging&versionId=3&x=1", b"tagging&versionid=3"])
def test_changed_query_is_refused(query):
    assert refused_code((*BASE[:2], query, BASE[3])) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (b"host", b"other.example", "SignatureDoesNotMatch"),
        (b"x-amz-meta-a", b"two", "SignatureDoesNotMatch"),
        (b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD", "SignatureDoesNotMatch"),
        (b"x-amz-meta-new", b"1", "AccessDenied"),
        (b"x-amz-copy-source", b"/a/b", "AccessDenied"),
        (b"x-amz-security-token", b"token", "AccessDenied"),
    ],
)
def test_changed_or_added_header_is_refused(name, value, code):
    assert refused_code((*BASE[:3], {**BASE[3], name: value})) == code


def test_removed_signed_header_is_refused():
    headers = {name: value for name, value in BASE[3].items() if name != b"x-amz-meta-a"}
    assert refused_code((*BASE[:3], headers)) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("old", [b"AKIDEXAMPLE", b"eu-x-1"])
def test_changed_credential_is_refused_or_names_another_key(old):
    headers = {**BASE[3], b"authorization": BASE[3][b"authorization"].replace(old, b"other")}
    claim = sigv4.parse(*BASE[:3], headers)
    if claim.access_key == CREDENTIALS.access_key:
        assert refused_code((*BASE[:3], headers)) == "SignatureDoesNotMatch"
    else:
        assert claim.access_key == "other"


@given(st.integers(0, 63), st.sampled_from("0123456789abcdef"))
def test_any_changed_digit_of_the_signature_is_refused(position, digit):
    value = bytearray(BASE[3][b"authorization"])
    at = len(value) - 64 + position
    if value[at] != ord(digit):
        value[at] = ord(digit)
        assert refused_code((*BASE[:3], {**BASE[3], b"authorization": bytes(value)})) == "SignatureDoesNotMatch"


def test_order_of_the_query_does_not_matter():
    check((*BASE[:2], b"versionId=3&tagging", BASE[3]))


def test_blanks_around_and_inside_a_header_value_are_collapsed():
    parts = signed_by_header("GET", "k", {}, {"x-amz-meta-a": "  one   two  "})
    check((*parts[:3], {**parts[3], b"x-amz-meta-a": b"\tone \t two "}))


def test_plus_in_a_query_value_counts_as_a_space():
    parts = signed_by_header("GET", "k", {"prefix": "a b"}, {})
    check((*parts[:2], b"prefix=a+b", parts[3]))


@pytest.mark.parametrize("added", [b"X-Amz-Expires=9999", b"versionId=2", b"X-Amz-Date=20200101T000000Z"])
def test_parameter_added_to_a_presigned_query_is_refused(added):
    method, path, query, headers = signed_by_query("GET", "k", {})
    refused_code((method, path, query + b"&" + added, headers))


def test_presigned_query_does_not_cover_an_unsigned_amz_header():
    method, path, query, headers = signed_by_query("PUT", "k", {})
    assert refused_code((method, path, query, {**headers, b"x-amz-acl": b"public-read"})) == "AccessDenied"
