"""The request that a backend gets: written anew from the operation, its parameters and the headers it knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import uvloop
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from gateway_records import Records
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.sigv4 import STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER, Signer
from tidegate.gateway.requests import bodies
from tidegate.gateway.requests.forwarding import ForwardedRequest


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    made = Records(tmp_path_factory.mktemp("forwarded"), domains=("gate",))
    made.add_pool("p")
    yield made
    made.close()


def built(records: Records, method: str, target: str, **options: str) -> tuple[str, dict[str, str]]:
    """The request line, and the headers that are not the signature's."""
    admission = uvloop.run(records.admitted(records.head(method, target, "p", **options)))
    text = ForwardedRequest(admission, bodies.intake(admission)).head(admission.pool).decode("latin-1")
    assert text.endswith("\r\n\r\n") and text.count("\r\n\r\n") == 1
    first, *lines = text[:-4].split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers.pop("host") == "127.0.0.1:1"
    assert headers.pop("authorization").startswith("AWS4-HMAC-SHA256 Credential=ADMIN/")
    del headers["x-amz-date"]
    return first, headers


@pytest.mark.parametrize(
    ("method", "target", "line"),
    [
        ("GET", "/p-bucket/k", "GET /p-bucket/k HTTP/1.1"),
        ("GET", "/p-bucket/%6b%2F%20+%3B?", "GET /p-bucket/k/%20%2B%3B HTTP/1.1"),
        ("GET", "/p-bucket/k?x;tagging", "GET /p-bucket/k HTTP/1.1"),
        ("GET", "/p-bucket/k?x-id=GetObject&versionId=a%26b;c", "GET /p-bucket/k?versionId=a%26b%3Bc HTTP/1.1"),
        ("GET", "/p-bucket/k?tagging=evil&versionId=v", "GET /p-bucket/k?tagging=&versionId=v HTTP/1.1"),
        ("GET", "/p-bucket/?prefix=a+b&marker=%E2%82%AC", "GET /p-bucket?marker=%E2%82%AC&prefix=a%20b HTTP/1.1"),
        ("GET", "/p-bucket?max-keys=2&list-type=2", "GET /p-bucket?list-type=2&max-keys=2 HTTP/1.1"),
        ("DELETE", "/p-bucket/k?uploadId=u%2F", "DELETE /p-bucket/k?uploadId=u%2F HTTP/1.1"),
        ("POST", "/p-bucket/k?uploads", "POST /p-bucket/k?uploads= HTTP/1.1"),
    ],
)
def test_the_target_is_written_in_one_way(records: Records, method: str, target: str, line: str) -> None:
    assert built(records, method, target)[0] == line


def test_virtual_hosted_and_path_style_end_as_the_same_request(records: Records) -> None:
    path = built(records, "GET", "/p-bucket/status")
    for host in ("p-bucket.gate", "P-Bucket.Gate.", "p-bucket.gate:9000", "p-bucket.gate.:9000"):
        assert built(records, "GET", "/status", host=host) == path


def test_header_signed_presigned_and_anonymous_requests_end_as_the_same_request(records: Records) -> None:
    records.registry.set_bucket_policy("p-bucket", "public")
    heads = (
        records.head("GET", "/p-bucket/k", "p", range="bytes=0-1"),
        records.presigned("GET", "/p-bucket/k?x-id=GetObject", "p", range="bytes=0-1"),
        records.head("GET", "/p-bucket/k", None, range="bytes=0-1"),
    )
    found = set()
    for head in heads:
        admission = uvloop.run(records.admitted(head))
        text = ForwardedRequest(admission, None).head(admission.pool)
        found.add(b"\r\n".join(line for line in text.split(b"\r\n") if not line.startswith((b"x-amz-date", b"auth"))))
    assert len(found) == 1


def test_what_the_operation_does_not_know_stays_behind(records: Records) -> None:
    _, headers = built(
        records,
        "PUT",
        "/p-bucket/k",
        content_length="5",
        content_type="text/plain",
        x_amz_acl="private",
        x_amz_expected_bucket_owner="somebody",
        x_http_method_override="DELETE",
        x_forwarded_for="1.2.3.4",
        x_amz_meta_colour="blue  green",
        content_md5="XUFAKrxLKna5cZ2REBfFkg==",
        content_encoding="aws-chunked, gzip",
        cookie="a=b",
    )
    assert headers == {
        "content-length": "5",
        "content-type": "text/plain",
        "content-encoding": "gzip",
        "x-amz-meta-colour": "blue  green",
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    }


def test_the_source_of_a_copy_is_written_anew(records: Records) -> None:
    source = "p-bucket/a%20b+c%3B?versionId=v%2F1"
    _, headers = built(records, "PUT", "/p-bucket/k", x_amz_copy_source=source)
    assert headers["x-amz-copy-source"] == "/p-bucket/a%20b%2Bc%3B?versionId=v%2F1"
    assert headers["content-length"] == "0"


def test_an_aws_chunked_body_goes_on_as_a_plain_one(records: Records) -> None:
    streaming = {"x_amz_content_sha256": STREAMING_SIGNED, "x_amz_decoded_content_length": "70000"}
    _, headers = built(records, "PUT", "/p-bucket/k", content_length="71000", **streaming)
    assert headers == {"content-length": "70000", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}


@pytest.mark.parametrize(("data", "start"), [(b"hello", b"5\r\n"), (b"", b"")])
def test_a_trailing_checksum_follows_the_body_in_one_chunk(records: Records, data: bytes, start: bytes) -> None:
    checksum = {b"hello": b"NhCmhg==", b"": b"AAAAAA=="}[data]
    chunks = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
    wire = chunks + b"0\r\nx-amz-checksum-crc32:" + checksum + b"\r\n\r\n"
    head = records.head(
        "PUT",
        "/p-bucket/k",
        "p",
        content_length=str(len(wire)),
        x_amz_content_sha256=STREAMING_UNSIGNED_TRAILER,
        x_amz_decoded_content_length=str(len(data)),
        x_amz_trailer="x-amz-checksum-crc32",
    )
    admission = uvloop.run(records.admitted(head))
    intake = bodies.intake(admission)
    request = ForwardedRequest(admission, intake)
    assert intake is not None and intake.take(wire) == (data, b"")
    text = request.head(admission.pool)
    assert b"x-amz-trailer: x-amz-checksum-crc32\r\n" in text
    assert b"x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n" in text
    assert request.start == start
    body = request.start + data + request.end
    assert body == wire
    assert b"content-length: %d\r\n" % len(body) in text


names = st.text(st.sampled_from("abcxyz-09"), min_size=1, max_size=8).map(lambda text: f"x-amz-meta-{text}")
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@given(st.dictionaries(names, values, max_size=4), st.sampled_from([b"", b"list-type=2&prefix=a%20b", b"tagging="]))
def test_signatures_are_those_of_botocore(headers: dict[str, str], query: bytes) -> None:
    signed = AWSRequest("PUT", f"http://here/b/k?{query.decode()}", headers={**headers, "host": "here"})
    signer = S3SigV4Auth(Credentials("AK", "secret"), "s3", "us-east-1")
    signer.payload = lambda _: "UNSIGNED-PAYLOAD"
    signer.add_auth(signed)
    stamp = signed.context["timestamp"]
    now = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    lines = Signer("AK", "secret", "us-east-1").headers(
        b"PUT",
        b"/b/k",
        query,
        b"here",
        [(name.encode(), value.encode()) for name, value in headers.items()],
        payload=b"UNSIGNED-PAYLOAD",
        now=now,
    )
    assert f"authorization: {signed.headers['Authorization']}\r\n".encode() in lines
