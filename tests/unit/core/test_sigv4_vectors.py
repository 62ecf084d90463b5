"""The examples that AWS documents for header, query and chunked signatures, and their neighbours."""

import pytest

from tidegate.core import sigv4
from tidegate.core.chunked import ChunkVerifier, chunked_body
from tidegate.core.s3errors import S3Error

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
KEY = "AKIAIOSFODNN7EXAMPLE"
NOW = 1369353600.0
HOST = b"examplebucket.s3.amazonaws.com"
EMPTY = sigv4.EMPTY_SHA256.encode()


def authorization(signed: str, signature: str) -> bytes:
    credential = f"{KEY}/20130524/us-east-1/s3/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={signed},Signature={signature}".encode()


GET_OBJECT = (
    b"GET",
    b"/test.txt",
    b"",
    {
        b"host": HOST,
        b"range": b"bytes=0-9",
        b"x-amz-content-sha256": EMPTY,
        b"x-amz-date": b"20130524T000000Z",
        b"authorization": authorization(
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
    },
)
PUT_OBJECT = (
    b"PUT",
    b"/test%24file.text",
    b"",
    {
        b"host": HOST,
        b"date": b"Fri, 24 May 2013 00:00:00 GMT",
        b"x-amz-content-sha256": b"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        b"x-amz-date": b"20130524T000000Z",
        b"x-amz-storage-class": b"REDUCED_REDUNDANCY",
        b"authorization": authorization(
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    },
)
GET_LIFECYCLE = (
    b"GET",
    b"/",
    b"lifecycle",
    {
        b"host": HOST,
        b"x-amz-content-sha256": EMPTY,
        b"x-amz-date": b"20130524T000000Z",
        b"authorization": authorization(
            "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
    },
)
LIST_OBJECTS = (
    b"GET",
    b"/",
    b"max-keys=2&prefix=J",
    {
        b"host": HOST,
        b"x-amz-content-sha256": EMPTY,
        b"x-amz-date": b"20130524T000000Z",
        b"authorization": authorization(
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    },
)
PRESIGNED = (
    b"GET",
    b"/test.txt",
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3"
    b"%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    b"&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    {b"host": HOST},
)


@pytest.mark.parametrize(
    "request_parts",
    [GET_OBJECT, PUT_OBJECT, GET_LIFECYCLE, LIST_OBJECTS, PRESIGNED],
    ids=["get", "put", "lifecycle", "list", "presigned"],
)
def test_documented_example_is_verified(request_parts):
    claim = sigv4.parse(*request_parts)
    assert claim is not None
    assert (claim.access_key, claim.date, claim.region, claim.service) == (KEY, "20130524", "us-east-1", "s3")
    assert claim.timestamp == NOW
    sigv4.verify(claim, SECRET, now=NOW, skew=900)


@pytest.mark.parametrize("ahead", [-901, 901])
def test_header_claim_beyond_the_allowed_skew_is_refused(ahead):
    claim = sigv4.parse(*GET_OBJECT)
    with pytest.raises(S3Error) as refused:
        sigv4.verify(claim, SECRET, now=NOW + ahead, skew=900)
    assert refused.value.code == "RequestTimeTooSkewed"
    assert refused.value.fields["MaxAllowedSkewMilliseconds"] == "900000"
    assert refused.value.fields["RequestTime"] == "20130524T000000Z"


@pytest.mark.parametrize("ahead", [-900, 900])
def test_header_claim_at_the_edge_of_the_skew_is_accepted(ahead):
    sigv4.verify(sigv4.parse(*GET_OBJECT), SECRET, now=NOW + ahead, skew=900)


@pytest.mark.parametrize(("age", "outcome"), [(86400, None), (86401, "Request has expired"), (-901, "not valid yet")])
def test_presigned_claim_lives_from_its_date_until_it_expires(age, outcome):
    claim = sigv4.parse(*PRESIGNED)
    if outcome is None:
        sigv4.verify(claim, SECRET, now=NOW + age, skew=900)
        return
    with pytest.raises(S3Error, match=outcome) as refused:
        sigv4.verify(claim, SECRET, now=NOW + age, skew=900)
    assert (refused.value.code, refused.value.status) == ("AccessDenied", 403)


def test_wrong_secret_is_refused():
    with pytest.raises(S3Error) as refused:
        sigv4.verify(sigv4.parse(*GET_OBJECT), SECRET + "x", now=NOW, skew=900)
    assert (refused.value.code, refused.value.status) == ("SignatureDoesNotMatch", 403)


STREAMING_HEADERS = {
    b"host": b"s3.amazonaws.com",
    b"x-amz-date": b"20130524T000000Z",
    b"x-amz-storage-class": b"REDUCED_REDUNDANCY",
    b"content-encoding": b"aws-chunked",
    b"content-length": b"66824",
    b"x-amz-decoded-content-length": b"66560",
    b"x-amz-content-sha256": b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    b"authorization": authorization(
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;"
        "x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    ),
}
STREAMING_BODY = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)


def test_documented_chunked_upload_is_verified():
    claim = sigv4.parse(b"PUT", b"/examplebucket/chunkObject.txt", b"", STREAMING_HEADERS)
    key = sigv4.verify(claim, SECRET, now=NOW, skew=900)
    body = chunked_body(claim.payload, STREAMING_HEADERS, ChunkVerifier(claim, key))
    body.feed(STREAMING_BODY)
    body.end()
    assert body.finished
    assert body.decoded_bytes == 66560


TRAILER_HEADERS = {
    b"host": b"s3.amazonaws.com",
    b"x-amz-date": b"20130524T000000Z",
    b"x-amz-storage-class": b"REDUCED_REDUNDANCY",
    b"content-encoding": b"aws-chunked",
    b"x-amz-decoded-content-length": b"66560",
    b"x-amz-content-sha256": b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    b"x-amz-trailer": b"x-amz-checksum-crc32c",
    b"authorization": authorization(
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;"
        "x-amz-trailer",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    ),
}
TRAILER_BODY = (
    b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
    + b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    + b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
)


def test_documented_chunked_upload_with_trailer_is_verified():
    claim = sigv4.parse(b"PUT", b"/examplebucket/chunkObject.txt", b"", TRAILER_HEADERS)
    key = sigv4.verify(claim, SECRET, now=NOW, skew=900)
    body = chunked_body(claim.payload, TRAILER_HEADERS, ChunkVerifier(claim, key))
    body.feed(TRAILER_BODY)
    body.end()
    assert body.decoded_bytes == 66560


@pytest.mark.parametrize("position", [30, 100, 65650, 66700, -200, -20])
def test_changed_byte_in_a_documented_chunked_upload_is_refused(position):
    claim = sigv4.parse(b"PUT", b"/examplebucket/chunkObject.txt", b"", TRAILER_HEADERS)
    key = sigv4.verify(claim, SECRET, now=NOW, skew=900)
    body = chunked_body(claim.payload, TRAILER_HEADERS, ChunkVerifier(claim, key))
    tampered = bytearray(TRAILER_BODY)
    tampered[position] ^= 0x01
    with pytest.raises(S3Error) as refused:
        body.feed(bytes(tampered))
    assert refused.value.status in (400, 403)
