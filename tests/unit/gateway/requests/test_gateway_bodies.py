"""Bodies that the gateway reads itself: how long they may be, and whether they are what they claim."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER
from tidegate.gateway.requests import bodies
from tidegate.gateway.requests.admission import Admission

TAGS = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    made = Records(tmp_path_factory.mktemp("bodies"))
    made.add_pool("p")
    yield made
    made.close()


def admitted(records: Records, method: str, target: str, **headers: str) -> Admission:
    return uvloop.run(records.admitted(records.head(method, target, "p", **headers)))


def code_of(call, *arguments) -> str:
    with pytest.raises(S3Error) as error:
        call(*arguments)
    return error.value.code


def taken(records: Records, body: bytes, method: str, target: str, **headers: str) -> bytes:
    """The payload of a body that comes in small pieces."""
    intake = bodies.intake(admitted(records, method, target, content_length=str(len(body)), **headers))
    assert intake is not None
    if not body:
        intake.end()
    return b"".join(intake.take(body[at : at + 7])[0] for at in range(0, len(body), 7))


@pytest.mark.parametrize(
    ("method", "target", "longest"),
    [
        ("PUT", "/p-bucket/k?tagging=", 64 * 1024),
        ("PUT", "/p-bucket?versioning=", 64 * 1024),
        ("POST", "/p-bucket?delete=", 4 << 20),
        ("POST", "/p-bucket/k?uploadId=u", 4 << 20),
    ],
)
def test_xml_has_a_limit(records: Records, method: str, target: str, longest: int) -> None:
    assert bodies.intake(admitted(records, method, target, content_length=str(longest))) is not None
    too_long = admitted(records, method, target, content_length=str(longest + 1))
    assert code_of(bodies.intake, too_long) == "MaxMessageLengthExceeded"


@pytest.mark.parametrize("target", ["/p-bucket/k", "/p-bucket/k?partNumber=1&uploadId=u"])
def test_data_has_no_limit(records: Records, target: str) -> None:
    assert bodies.intake(admitted(records, "PUT", target, content_length=str(5 << 40))) is not None


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/p-bucket/k"),
        ("HEAD", "/p-bucket/k"),
        ("DELETE", "/p-bucket/k"),
        ("POST", "/p-bucket/k?uploads="),
    ],
)
def test_a_body_where_none_belongs_is_refused_and_closes(records: Records, method: str, target: str) -> None:
    with pytest.raises(S3Error) as error:
        bodies.intake(admitted(records, method, target, content_length="5"))
    assert (error.value.code, error.value.closes) == ("InvalidRequest", True)
    assert bodies.intake(admitted(records, method, target)) is None


def test_the_only_expectation_is_100_continue(records: Records) -> None:
    assert bodies.intake(admitted(records, "PUT", "/p-bucket/k", content_length="5", expect="100-Continue")) is not None
    odd = admitted(records, "PUT", "/p-bucket/k", content_length="5", expect="200-ok")
    assert code_of(bodies.intake, odd) == "InvalidRequest"


def test_a_signed_digest_is_checked_as_the_body_passes(records: Records) -> None:
    def feed(body: bytes, digest: str) -> bytes:
        return taken(records, body, "PUT", "/p-bucket/k", x_amz_content_sha256=digest)

    body = b"some bytes" * 100
    digest = hashlib.sha256(body).hexdigest()
    assert feed(body, digest) == feed(body, digest.upper()) == body
    assert code_of(feed, body[:-1], digest) == "XAmzContentSHA256Mismatch"
    assert code_of(feed, b"", digest) == "XAmzContentSHA256Mismatch"
    assert feed(b"", hashlib.sha256().hexdigest()) == b""


def test_the_digest_of_a_presigned_query_counts_and_not_that_of_a_header(records: Records) -> None:
    body = b"some bytes"
    digest = hashlib.sha256(body).hexdigest()
    head = records.presigned("PUT", f"/p-bucket/k?X-Amz-Content-Sha256={digest}", "p", content_length="10")
    for sent, fine in ((body, True), (b"other byte", False)):
        intake = bodies.intake(uvloop.run(records.admitted(head)))
        assert intake is not None
        if fine:
            intake.take(sent)
        else:
            assert code_of(intake.take, sent) == "XAmzContentSHA256Mismatch"


def test_only_an_unsigned_payload_may_pass_unseen(records: Records) -> None:
    intake = bodies.intake(admitted(records, "PUT", "/p-bucket/k", content_length="5"))
    assert intake is not None and intake.bypassable


@pytest.mark.parametrize("payload", [STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER])
def test_only_data_may_be_aws_chunked(records: Records, payload: str) -> None:
    headers = {"x_amz_content_sha256": payload, "x_amz_decoded_content_length": "5", "content_length": "9"}
    assert bodies.intake(admitted(records, "PUT", "/p-bucket/k", **headers)) is not None
    tagging = admitted(records, "PUT", "/p-bucket/k?tagging=", **headers)
    assert code_of(bodies.intake, tagging) == "InvalidRequest"


def test_an_aws_chunked_body_must_say_its_length(records: Records) -> None:
    silent = admitted(records, "PUT", "/p-bucket/k", x_amz_content_sha256=STREAMING_SIGNED)
    assert code_of(bodies.intake, silent) == "MissingContentLength"


def b64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def bitwise_crc(data: bytes, polynomial: int, size: int) -> bytes:
    """A reflected cyclic redundancy check, straight from its definition."""
    ones = (1 << 8 * size) - 1
    value = ones
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
    return (value ^ ones).to_bytes(size, "big")


@pytest.mark.parametrize(
    ("header", "right"),
    [
        ("content_md5", b64(hashlib.md5(TAGS, usedforsecurity=False).digest())),
        ("x_amz_checksum_crc32", b64(zlib.crc32(TAGS).to_bytes(4, "big"))),
        ("x_amz_checksum_crc32c", b64(bitwise_crc(TAGS, 0x82F63B78, 4))),
        ("x_amz_checksum_crc64nvme", b64(bitwise_crc(TAGS, 0x9A6C9329AC4BC9B5, 8))),
        ("x_amz_checksum_sha1", b64(hashlib.sha1(TAGS, usedforsecurity=False).digest())),
        ("x_amz_checksum_sha256", b64(hashlib.sha256(TAGS).digest())),
    ],
)
@pytest.mark.parametrize("target", ["/p-bucket/k?tagging=", "/p-bucket/k", "/p-bucket/k?partNumber=1&uploadId=u"])
def test_every_digest_of_a_body_must_match(records: Records, target: str, header: str, right: str) -> None:
    assert taken(records, TAGS, "PUT", target, **{header: right}) == TAGS
    assert code_of(lambda: taken(records, TAGS + b" ", "PUT", target, **{header: right})) == "BadDigest"
    assert code_of(lambda: taken(records, TAGS, "PUT", target, **{header: "!"})) == "InvalidDigest"
    refusals = ("InvalidDigest", "InvalidRequest")
    assert code_of(lambda: taken(records, TAGS, "PUT", target, **{header: "AAA="})) in refusals


def test_a_checksum_of_an_unknown_kind_or_two_of_them_are_refused(records: Records) -> None:
    unknown = {"x_amz_checksum_md4": "AAAA"}
    assert code_of(lambda: taken(records, b"x", "PUT", "/p-bucket/k", **unknown)) == "InvalidRequest"
    both = {"x_amz_checksum_crc32": "AAAAAA==", "x_amz_checksum_crc32c": "AAAAAA=="}
    assert code_of(lambda: taken(records, b"x", "PUT", "/p-bucket/k", **both)) == "InvalidRequest"


def test_the_checksum_of_a_completed_upload_is_that_of_the_object(records: Records) -> None:
    headers = {"x_amz_checksum_crc32": "AAAAAA==-2"}
    assert taken(records, b"<x/>", "POST", "/p-bucket/k?uploadId=u", **headers) == b"<x/>"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/p-bucket?delete="),
        ("POST", "/p-bucket/k?uploadId=u"),
        ("PUT", "/p-bucket/k?tagging="),
        ("PUT", "/p-bucket?tagging="),
        ("PUT", "/p-bucket?versioning="),
        ("PUT", "/p-bucket?cors="),
        ("PUT", "/p-bucket?object-lock="),
        ("PUT", "/p-bucket/k?retention="),
        ("PUT", "/p-bucket/k?legal-hold="),
    ],
)
@pytest.mark.parametrize("body", [b"<", b"text", b"<Other/>", b"<!DOCTYPE x [<!ENTITY e 'e'>]><Delete>&e;</Delete>"])
def test_what_is_not_the_expected_xml_is_refused(records: Records, method: str, target: str, body: bytes) -> None:
    expected = admitted(records, method, target).operation.body
    assert expected is not None and expected.read is not None
    assert code_of(expected.read, body) == "MalformedXML"
    empty = "MalformedXML" if "uploadId" in target else "MissingRequestBodyError"
    assert code_of(expected.read, b"") == empty
