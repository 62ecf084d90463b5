"""Bodies in aws-chunked encoding: any split gives the same verdict, and broken ones are refused."""

import base64
import hashlib
import hmac
import io
import zlib

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum, Sha1Checksum, Sha256Checksum
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import sigv4
from tidegate.core.chunked import ChunkedBody, ChunkVerifier, chunked_body
from tidegate.core.s3errors import S3Error

SIGNED, SIGNED_TRAILER = sigv4.STREAMING_SIGNED, sigv4.STREAMING_SIGNED_TRAILER
UNSIGNED_TRAILER = sigv4.STREAMING_UNSIGNED_TRAILER
NOW = 1.7e9
SCOPE = "20231114/r/s3/aws4_request"
STAMP = "20231114T221320Z"
EMPTY = hashlib.sha256().hexdigest()

pieces = st.lists(st.integers(1, 40), max_size=30)


def head(payload, length, trailer=b""):
    """Headers of a signed request, its claim and its signing key."""
    headers = {b"host": b"h", b"x-amz-decoded-content-length": str(length).encode()}
    if trailer:
        headers[b"x-amz-trailer"] = trailer
    added = sigv4.sign(b"PUT", b"/b/k", b"", headers, access_key="A", secret="S", region="r", payload=payload, now=NOW)
    headers.update(added)
    claim = sigv4.parse(b"PUT", b"/b/k", b"", headers)
    return headers, claim, sigv4.verify(claim, "S", now=NOW, skew=900)


def signing_key():
    key = b"AWS4S"
    for part in SCOPE.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def signed_body(claim, chunks, trailer=b"", ending=b"\r\n"):
    """The encoding as its specification words it, written independently of the code under test."""
    key, previous, body = signing_key(), claim.signature, b""
    for chunk in (*chunks, b""):
        parts = ("AWS4-HMAC-SHA256-PAYLOAD", STAMP, SCOPE, previous, EMPTY, hashlib.sha256(chunk).hexdigest())
        previous = hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
        body += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
    if not trailer:
        return body + b"\r\n"
    parts = ("AWS4-HMAC-SHA256-TRAILER", STAMP, SCOPE, previous, hashlib.sha256(trailer + b"\n").hexdigest())
    signature = hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
    return body + trailer + ending + b"x-amz-trailer-signature:" + signature.encode() + b"\r\n\r\n"


def unsigned_body(chunks, trailer=b""):
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return framed + b"0\r\n" + (trailer + b"\r\n" if trailer else b"") + b"\r\n"


def feed(body: ChunkedBody, data: bytes, sizes=()):
    """The data that was taken out of the encoding."""
    at, found = 0, b""
    for size in sizes:
        found += body.feed(data[at : at + size])
        at += size
    found += body.feed(data[at:])
    body.end()
    return found


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big"))


def refused(call, *arguments):
    with pytest.raises(S3Error) as error:
        call(*arguments)
    assert error.value.status in (400, 403, 411)
    return error.value.code


chunk_lists = st.lists(st.binary(min_size=1, max_size=60), max_size=5)


@given(chunk_lists, pieces)
def test_signed_chunks_are_verified_however_the_body_is_split(chunks, sizes):
    headers, claim, key = head(SIGNED, sum(map(len, chunks)))
    body = chunked_body(claim.payload, headers, ChunkVerifier(claim, key))
    assert feed(body, signed_body(claim, chunks), sizes) == b"".join(chunks)
    assert body.finished
    assert body.decoded_bytes == sum(map(len, chunks))


@given(chunk_lists, pieces, st.sampled_from([b"\r\n", b"\n\r\n"]))
def test_signed_trailer_is_verified_however_the_body_is_split(chunks, sizes, ending):
    data = b"".join(chunks)
    headers, claim, key = head(SIGNED_TRAILER, len(data), b"x-amz-checksum-crc32")
    body = chunked_body(claim.payload, headers, ChunkVerifier(claim, key))
    assert feed(body, signed_body(claim, chunks, b"x-amz-checksum-crc32:" + crc32(data), ending), sizes) == data
    assert body.checksum == crc32(data)


@given(chunk_lists, st.data())
def test_any_changed_byte_of_a_signed_body_is_refused(chunks, data):
    content = b"".join(chunks)
    headers, claim, key = head(SIGNED_TRAILER, len(content), b"x-amz-checksum-crc32")
    good = signed_body(claim, chunks, b"x-amz-checksum-crc32:" + crc32(content))
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    # Two changes mean the same: letters in the other case in a size, and in a trailer's name.
    if bytes(bad).lower() != good.lower():
        body = chunked_body(claim.payload, headers, ChunkVerifier(claim, key))
        refused(feed, body, bytes(bad))


@pytest.mark.parametrize(
    ("name", "checksum"), [("crc32", Crc32Checksum), ("sha1", Sha1Checksum), ("sha256", Sha256Checksum)]
)
@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 5000])
def test_body_of_botocore_is_accepted_with_its_checksum(name, checksum, size):
    wrapper = AwsChunkedWrapper(
        io.BytesIO(b"x" * size), checksum_cls=checksum, checksum_name=f"x-amz-checksum-{name}", chunk_size=1000
    )
    headers = {b"x-amz-decoded-content-length": b"%d" % size, b"x-amz-trailer": f"x-amz-checksum-{name}".encode()}
    body = chunked_body(UNSIGNED_TRAILER, headers)
    feed(body, wrapper.read())
    assert body.decoded_bytes == size


@given(chunk_lists, st.binary(min_size=1, max_size=5))
def test_wrong_checksum_in_the_trailer_is_refused(chunks, other):
    data = b"".join(chunks)
    body = ChunkedBody(UNSIGNED_TRAILER, len(data), trailer=b"x-amz-checksum-crc32")
    trailer = b"x-amz-checksum-crc32:" + crc32(data + other)
    assert refused(feed, body, unsigned_body(chunks, trailer)) == "BadDigest"


def test_checksum_that_is_no_base64_is_refused():
    body = ChunkedBody(UNSIGNED_TRAILER, 1, trailer=b"x-amz-checksum-crc32")
    assert refused(feed, body, unsigned_body([b"a"], b"x-amz-checksum-crc32:!!")) == "InvalidRequest"


def test_closing_that_minio_clients_send_is_accepted():
    body = ChunkedBody(UNSIGNED_TRAILER, 1, trailer=b"x-amz-checksum-crc32c")
    feed(body, b"1\r\na\r\n0\r\nx-amz-checksum-crc32c:wdBDMA==\n\r\n\r\n", [1] * 40)
    assert body.finished


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (b"", "IncompleteBody"),
        (b"5\r\nhel", "IncompleteBody"),
        (b"5\r\nhello\r\n", "IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n", "IncompleteBody"),
        (b"4\r\nhell\r\n0\r\n\r\n", "IncompleteBody"),
        (b"0\r\n\r\n", "IncompleteBody"),
        (b"6\r\nhello!\r\n0\r\n\r\n", "InvalidChunk"),
        (b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "InvalidChunk"),
        (b"5\r\nhelloXY0\r\n\r\n", "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\n\r\n\n", "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\n\r\n\r", "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\n\r\n\r\n\r\n\r\n", "InvalidChunk"),
        (b"5\r\nhello\n0\r\n\r\n", "InvalidChunk"),
        (b"5\nhello\r\n0\r\n\r\n", "InvalidChunk"),
        (b"5;a=b\r\nhello\r\n0\r\n\r\n", "InvalidChunk"),
        (b"5;\r\nhello\r\n0\r\n\r\n", "InvalidChunk"),
        (b"-5\r\nhello\r\n0\r\n\r\n", "InvalidChunkSizeError"),
        (b"0x5\r\nhello\r\n0\r\n\r\n", "InvalidChunkSizeError"),
        (b" 5\r\nhello\r\n0\r\n\r\n", "InvalidChunkSizeError"),
        (b"\r\nhello\r\n0\r\n\r\n", "InvalidChunkSizeError"),
        (b"00000000000000005\r\nhello\r\n0\r\n\r\n", "InvalidChunkSizeError"),
        (b"f" * 300, "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\n\r\nmore", "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\n\r\n\r\n\r\n\r\n", "InvalidChunk"),
        (b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n", "MalformedTrailerError"),
        (b"5\r\nhello\r\n0\r\nno colon\r\n\r\n", "MalformedTrailerError"),
        (b"5\r\nhello\r\n0\r\n" + b"a" * 5000, "InvalidChunk"),
    ],
)
@pytest.mark.parametrize("sizes", [(), [1] * 400], ids=["whole", "bytewise"])
def test_broken_framing_is_refused(wire, code, sizes):
    assert refused(feed, ChunkedBody(UNSIGNED_TRAILER, 5), wire, sizes) == code


@pytest.mark.parametrize(
    "trailer",
    [
        b"",
        b"x-amz-checksum-sha1:AAAA",
        b"x-amz-checksum-crc32:AAAA\r\nx-amz-checksum-crc32:AAAA",
        b"x-amz-checksum-crc32:AAAA\r\nx-other:1",
        b":AAAA",
    ],
)
def test_trailer_other_than_announced_is_refused(trailer):
    body = ChunkedBody(UNSIGNED_TRAILER, 1, trailer=b"x-amz-checksum-crc32")
    assert refused(feed, body, unsigned_body([b"a"], trailer)) == "MalformedTrailerError"


def test_signed_trailer_without_its_signature_is_refused():
    headers, claim, key = head(SIGNED_TRAILER, 0, b"x-amz-checksum-crc32")
    wire = signed_body(claim, [], b"x-amz-checksum-crc32:AAAAAA==")
    body = chunked_body(claim.payload, headers, ChunkVerifier(claim, key))
    cut = wire[: wire.index(b"x-amz-trailer-signature")]
    assert refused(feed, body, cut + b"\r\n\r\n\r\n") == "MalformedTrailerError"


def test_unsigned_chunk_in_a_signed_body_is_refused_even_without_a_verifier():
    assert refused(feed, ChunkedBody(SIGNED, 1), unsigned_body([b"a"])) == "InvalidChunk"


def test_chunks_in_another_order_are_refused():
    headers, claim, key = head(SIGNED, 2)
    wire = signed_body(claim, [b"a", b"b"])
    first, second, rest = wire[:87], wire[87:174], wire[174:]
    body = chunked_body(claim.payload, headers, ChunkVerifier(claim, key))
    assert refused(feed, body, second + first + rest) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingContentLength"),
        ({b"x-amz-decoded-content-length": b"-1"}, "InvalidArgument"),
        ({b"x-amz-decoded-content-length": b"1" * 17}, "InvalidArgument"),
        ({b"x-amz-decoded-content-length": b"1", b"x-amz-trailer": b"authorization"}, "InvalidRequest"),
    ],
)
def test_headers_that_do_not_fit_an_aws_chunked_body_are_refused(headers, code):
    assert refused(chunked_body, UNSIGNED_TRAILER, headers) == code


def test_trailer_announced_for_a_body_without_one_is_refused():
    headers = {b"x-amz-decoded-content-length": b"1", b"x-amz-trailer": b"x-amz-checksum-crc32"}
    assert refused(chunked_body, SIGNED, headers) == "InvalidRequest"


@given(st.binary(max_size=400), pieces)
def test_any_bytes_are_accepted_or_refused(wire, sizes):
    for payload in sigv4.STREAMING_PAYLOADS:
        body = ChunkedBody(payload, 5)
        try:
            feed(body, wire, sizes)
        except S3Error as error:
            assert error.status in (400, 403)
        else:
            assert body.decoded_bytes == 5


@given(st.lists(st.sampled_from([b"5", b"0", b"a", b"\r\n", b"\n", b"hello", b";", b"chunk-signature=", b":"])), pieces)
def test_split_never_changes_the_verdict(parts, sizes):
    wire = b"".join(parts)
    verdicts = set()
    for split in ((), sizes, [1] * len(wire)):
        body = ChunkedBody(UNSIGNED_TRAILER, 5)
        try:
            feed(body, wire, split)
            verdicts.add("accepted")
        except S3Error as error:
            verdicts.add(error.code)
    assert len(verdicts) == 1
