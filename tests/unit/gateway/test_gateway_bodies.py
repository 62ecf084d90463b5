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
from tidegate.gateway import bodies
from tidegate.gateway.admission import Admission

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


@pytest.mark.parametrize(
    ("method", "target", "longest"),
    [
        ("PUT", "/p-bucket/k", None),
        ("PUT", "/p-bucket/k?partNumber=1&uploadId=u", None),
        ("PUT", "/p-bucket/k?tagging=", 64 * 1024),
        ("PUT", "/p-bucket?versioning=", 64 * 1024),
        ("POST", "/p-bucket?delete=", 4 << 20),
        ("POST", "/p-bucket/k?uploadId=u", 4 << 20),
    ],
)
def test_xml_has_a_limit_and_data_has_none(records: Records, method: str, target: str, longest: int | None) -> None:
    assert bodies.limit(admitted(records, method, target, content_length="1")) == longest
    if longest is not None:
        assert bodies.limit(admitted(records, method, target, content_length=str(longest))) == longest
        too_long = admitted(records, method, target, content_length=str(longest + 1))
        assert code_of(bodies.limit, too_long) == "MaxMessageLengthExceeded"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_body_where_none_belongs_is_refused_and_closes(records: Records, method: str) -> None:
    with pytest.raises(S3Error) as error:
        bodies.limit(admitted(records, method, "/p-bucket/k", content_length="5"))
    assert (error.value.code, error.value.closes) == ("InvalidRequest", True)


def test_the_only_expectation_is_100_continue(records: Records) -> None:
    assert bodies.limit(admitted(records, "PUT", "/p-bucket/k", content_length="5", expect="100-Continue")) is None
    odd = admitted(records, "PUT", "/p-bucket/k", content_length="5", expect="200-ok")
    assert code_of(bodies.limit, odd) == "InvalidRequest"


def feed(records: Records, body: bytes, digest: str) -> None:
    check = bodies.checker(admitted(records, "PUT", "/p-bucket/k", x_amz_content_sha256=digest))
    assert check is not None
    for at in range(0, len(body), 7):
        check.feed(body[at : at + 7])
    check.end()


def test_a_signed_digest_is_checked_as_the_body_passes(records: Records) -> None:
    body = b"some bytes" * 100
    digest = hashlib.sha256(body).hexdigest()
    feed(records, body, digest)
    feed(records, body, digest.upper())
    assert code_of(feed, records, body[:-1], digest) == "XAmzContentSHA256Mismatch"
    assert code_of(feed, records, b"", digest) == "XAmzContentSHA256Mismatch"


def test_an_unsigned_payload_is_not_looked_at(records: Records) -> None:
    assert bodies.checker(admitted(records, "PUT", "/p-bucket/k")) is None


def test_an_empty_body_must_be_what_the_digest_says(records: Records) -> None:
    bodies.check_empty(admitted(records, "PUT", "/p-bucket/k", x_amz_content_sha256=hashlib.sha256().hexdigest()))
    other = admitted(records, "PUT", "/p-bucket/k", x_amz_content_sha256="0" * 64)
    assert code_of(bodies.check_empty, other) == "XAmzContentSHA256Mismatch"
    bodies.check_empty(admitted(records, "GET", "/p-bucket/k", x_amz_content_sha256="0" * 64))


@pytest.mark.parametrize("payload", [STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER])
def test_only_data_may_be_aws_chunked(records: Records, payload: str) -> None:
    headers = {"x_amz_content_sha256": payload, "x_amz_decoded_content_length": "5"}
    assert bodies.checker(admitted(records, "PUT", "/p-bucket/k", **headers)) is not None
    tagging = admitted(records, "PUT", "/p-bucket/k?tagging=", **headers)
    assert code_of(bodies.checker, tagging) == "InvalidRequest"


def test_an_aws_chunked_body_must_say_its_length(records: Records) -> None:
    silent = admitted(records, "PUT", "/p-bucket/k", x_amz_content_sha256=STREAMING_SIGNED)
    assert code_of(bodies.checker, silent) == "MissingContentLength"


def b64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


@pytest.mark.parametrize(
    ("header", "right"),
    [
        ("content_md5", b64(hashlib.md5(TAGS, usedforsecurity=False).digest())),
        ("x_amz_checksum_crc32", b64(zlib.crc32(TAGS).to_bytes(4, "big"))),
        ("x_amz_checksum_sha1", b64(hashlib.sha1(TAGS, usedforsecurity=False).digest())),
        ("x_amz_checksum_sha256", b64(hashlib.sha256(TAGS).digest())),
    ],
)
def test_every_digest_of_an_xml_body_must_match(records: Records, header: str, right: str) -> None:
    target = "/p-bucket/k?tagging="
    assert bodies.read(admitted(records, "PUT", target, **{header: right}), TAGS) == (("k", "v"),)
    assert code_of(bodies.read, admitted(records, "PUT", target, **{header: right}), TAGS + b" ") == "BadDigest"
    assert code_of(bodies.read, admitted(records, "PUT", target, **{header: "!"}), TAGS) == "InvalidDigest"


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
    assert code_of(bodies.read, admitted(records, method, target), body) == "MalformedXML"


def test_missing_xml_is_refused(records: Records) -> None:
    assert code_of(bodies.read, admitted(records, "PUT", "/p-bucket/k?tagging="), b"") == "MissingRequestBodyError"


def test_the_data_of_objects_is_not_read(records: Records) -> None:
    assert bodies.read(admitted(records, "PUT", "/p-bucket/k"), b"<anything") == ()
