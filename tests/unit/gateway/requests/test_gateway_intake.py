"""Request bodies as they come in: where they end, and what is not theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.chunked import chunked_body
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4 import STREAMING_UNSIGNED_TRAILER
from tidegate.gateway.http.http1 import LAST_CHUNK, RequestHead, chunk
from tidegate.gateway.requests.intake import Intake


def head(*headers: bytes) -> RequestHead:
    return RequestHead(b"\r\n".join((b"PUT /b/k HTTP/1.1", b"Host: h", *headers, b"", b"")))


def plain(length: int) -> Intake:
    return Intake(head(b"Content-Length: %d" % length), None, ())


def test_a_body_of_known_length_ends_there_and_the_rest_is_handed_back() -> None:
    intake = plain(5)
    assert intake.take(b"hel") == (b"hel", b"")
    assert not intake.complete
    assert intake.take(b"loGET / HTTP/1.1") == (b"lo", b"GET / HTTP/1.1")
    assert (intake.complete, intake.left, intake.wire_bytes, intake.payload_bytes) == (True, 0, 5, 5)


def test_bytes_that_went_another_way_are_counted() -> None:
    intake = plain(1000)
    intake.bypassed(990)
    assert intake.take(b"0123456789abc") == (b"0123456789", b"abc")
    assert (intake.complete, intake.wire_bytes) == (True, 1000)


def test_only_a_body_without_framing_and_checks_may_pass_unseen() -> None:
    assert plain(5).bypassable
    assert not Intake(head(b"Transfer-Encoding: chunked"), None, ()).bypassable
    assert not Intake(head(b"Content-Length: 5"), aws_chunked(1), ()).bypassable


def test_a_chunked_body_is_decoded_and_counted_both_ways() -> None:
    intake = Intake(head(b"Transfer-Encoding: chunked"), None, ())
    wire = chunk(b"hello") + LAST_CHUNK
    assert intake.take(wire) == (b"hello", b"")
    assert (intake.complete, intake.excess) == (True, False)
    assert (intake.payload_bytes, intake.wire_bytes) == (5, len(wire))


def test_bytes_behind_a_chunked_body_are_told_of() -> None:
    intake = Intake(head(b"Transfer-Encoding: chunked"), None, ())
    intake.take(LAST_CHUNK + b"GET / HTTP/1.1\r\n\r\n")
    assert intake.complete and intake.excess


def test_broken_chunks_are_refused_and_close_the_connection() -> None:
    intake = Intake(head(b"Transfer-Encoding: chunked"), None, ())
    with pytest.raises(S3Error) as refused:
        intake.take(b"zz\r\n")
    assert (refused.value.code, refused.value.closes) == ("BadRequest", True)


def aws_chunked(length: int):
    headers = {b"x-amz-decoded-content-length": str(length).encode(), b"x-amz-trailer": b"x-amz-checksum-crc32"}
    return chunked_body(STREAMING_UNSIGNED_TRAILER, headers)


BODY = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"


@given(st.lists(st.integers(1, 20), max_size=30))
def test_an_aws_chunked_body_is_decoded_in_any_pieces(sizes: list[int]) -> None:
    intake, passed, at = Intake(head(b"Content-Length: %d" % len(BODY)), aws_chunked(5), ()), b"", 0
    for size in [*sizes, len(BODY)]:
        if at < len(BODY):
            passed += intake.take(BODY[at : at + size])[0]
            at += size
    assert passed == b"hello" and intake.complete
    assert (intake.payload_length, intake.payload_bytes) == (5, 5)
    assert (intake.trailer, intake.checksum) == (b"x-amz-checksum-crc32", b"NhCmhg==")


def test_an_aws_chunked_body_that_ends_too_early_is_refused_though_its_length_is_right() -> None:
    cut = BODY[: BODY.index(b"0\r\n")]
    with pytest.raises(S3Error) as refused:
        Intake(head(b"Content-Length: %d" % len(cut)), aws_chunked(5), ()).take(cut)
    assert refused.value.code == "IncompleteBody"


def test_an_aws_chunked_body_inside_a_chunked_one_is_checked_after_decoding() -> None:
    intake = Intake(head(b"Transfer-Encoding: chunked"), aws_chunked(5), ())
    assert intake.take(chunk(BODY[:7]) + chunk(BODY[7:]) + LAST_CHUNK)[0] == b"hello"
    broken = Intake(head(b"Transfer-Encoding: chunked"), aws_chunked(4), ())
    with pytest.raises(S3Error):
        broken.take(chunk(BODY) + LAST_CHUNK)
