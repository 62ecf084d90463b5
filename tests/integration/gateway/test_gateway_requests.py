"""Requests on the wire: bodies in every framing, connections used again, clients that break off."""

from __future__ import annotations

import base64
import socket
import struct
import zlib

import pytest
from places import Place
from raw_http import request_head, signed_chunks, signed_length, until

from tidegate.core.sigv4 import STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER, UNSIGNED_PAYLOAD

MIB = 1 << 20


def reset(connection: socket.socket) -> None:
    """Closes as a client does that dies: the other side gets a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- Expect: 100-continue ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_a_client_that_asks_first_is_encouraged_and_its_body_stored(place: Place, size: int) -> None:
    key, body = place.fresh(), b"e" * size
    whole = place.request("PUT", place.path(key), body, headers={"Expect": "100-continue"})
    with place.wire() as wire:
        wire.send(whole[:-size])
        assert wire.head().status == 100
        wire.send(body)
        assert wire.answer().status == 200
        assert wire.ask(place.request("GET", place.path(key))).body == body


def test_a_client_that_asks_first_is_refused_before_it_sends_the_body(place: Place) -> None:
    head = request_head(
        place.url, None, "PUT", place.path(place.fresh()), headers={"Expect": "100-continue"}, length=100
    )
    with place.wire() as wire:
        answer = wire.ask(head)
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert answer.headers["connection"] == "close", "nobody can tell whether the body will still come"
        assert wire.closed


def test_an_unknown_expectation_is_refused(place: Place) -> None:
    answer = place.ask("PUT", place.path(place.fresh()), b"x", headers={"Expect": "the-unexpected"})
    assert (answer.status, answer.code) == (400, "InvalidRequest")


# --- Transfer-Encoding: chunked ------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[], [1], [5, 70_000, 3], [MIB, MIB, 17]])
def test_a_chunked_upload_is_stored_whole(place: Place, sizes: list[int]) -> None:
    key = place.fresh()
    chunks = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    head = place.request(
        "PUT", place.path(key), headers={"Transfer-Encoding": "chunked"}, payload=UNSIGNED_PAYLOAD, length=-1
    )
    with place.wire() as wire:
        wire.send(head)
        for chunk in chunks:
            wire.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        assert wire.ask(b"0\r\n\r\n").status == 200
        assert wire.ask(place.request("GET", place.path(key))).body == b"".join(chunks)


@pytest.mark.parametrize("bad", [b"xyz\r\n", b"5\r\nhello!!\r\n0\r\n\r\n"])
def test_a_broken_chunk_is_refused_and_nothing_is_stored(place: Place, bad: bytes) -> None:
    key = place.fresh()
    head = place.request(
        "PUT", place.path(key), headers={"Transfer-Encoding": "chunked"}, payload=UNSIGNED_PAYLOAD, length=-1
    )
    with place.wire() as wire:
        answer = wire.ask(head + b"3\r\nabc\r\n" + bad)
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert wire.closed
    assert place.stored(key) is None


# --- aws-chunked ---------------------------------------------------------------------------------


def signed_upload(place: Place, key: str, sizes: list[int]) -> tuple[bytes, bytes]:
    """Head and body."""
    chunks = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    headers = {"X-Amz-Decoded-Content-Length": str(sum(sizes)), "Content-Encoding": "aws-chunked"}
    head = request_head(
        place.url,
        place.key,
        "PUT",
        place.path(key),
        headers=headers,
        payload=STREAMING_SIGNED,
        length=signed_length(sizes),
    )
    return head, signed_chunks(place.key, head, chunks)


@pytest.mark.parametrize("sizes", [[], [10], [65536, 65536, 17], [MIB, MIB, 1]])
def test_signed_chunks_are_stored_without_their_framing(place: Place, sizes: list[int]) -> None:
    key = place.fresh()
    head, body = signed_upload(place, key, sizes)
    with place.wire() as wire:
        assert wire.ask(head + body).status == 200
    assert place.stored(key) == b"".join(bytes([97 + number]) * size for number, size in enumerate(sizes))


@pytest.mark.parametrize("sizes", [[100, 100], [MIB, 500_000]], ids=["small", "large"])
@pytest.mark.parametrize("what", ["data", "signature", "size", "end"])
def test_a_bad_signed_chunk_is_refused_and_nothing_is_stored(place: Place, sizes: list[int], what: str) -> None:
    key = place.fresh()
    head, body = signed_upload(place, key, sizes)
    last = body.rindex(b"b" * sizes[1])
    if what == "data":
        body = body[:last] + b"B" + body[last + 1 :]
    elif what == "signature":
        flipped = b"0" if body[last - 3 : last - 2] != b"0" else b"1"
        body = body[: last - 3] + flipped + body[last - 2 :]
    elif what == "size":
        body = body.replace(b"%x;" % sizes[1], b"%x;" % (sizes[1] + 1), 1)
    else:
        body = body[:-2] + b"xx"
    with place.wire() as wire:
        answer = wire.ask(head + body)
    assert answer.status in (400, 403), answer
    assert place.stored(key) is None


def trailer_upload(place: Place, key: str, chunks: list[bytes], checksum: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body += b"0\r\nx-amz-checksum-crc32:" + checksum + b"\r\n\r\n"
    headers = {
        "X-Amz-Decoded-Content-Length": str(sum(map(len, chunks))),
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "Content-Encoding": "aws-chunked",
    }
    return place.request("PUT", place.path(key), body, headers=headers, payload=STREAMING_UNSIGNED_TRAILER)


def crc32(data: bytes) -> bytes:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big"))


@pytest.mark.parametrize("sizes", [[10], [65536, 100], [MIB, 3]])
def test_unsigned_chunks_with_a_trailer_are_stored(place: Place, sizes: list[int]) -> None:
    key, chunks = place.fresh(), [b"t" * size for size in sizes]
    with place.wire() as wire:
        assert wire.ask(trailer_upload(place, key, chunks, crc32(b"".join(chunks)))).status == 200
    assert place.stored(key) == b"".join(chunks)


@pytest.mark.parametrize("size", [10, MIB])
def test_a_wrong_checksum_in_the_trailer_is_refused_and_nothing_is_stored(place: Place, size: int) -> None:
    key = place.fresh()
    with place.wire() as wire:
        answer = wire.ask(trailer_upload(place, key, [b"t" * size], crc32(b"something else")))
    assert answer.status == 400, answer
    assert place.stored(key) is None


@pytest.mark.parametrize("size", [10, 200_000, 2 * MIB])
def test_a_body_that_is_not_what_its_digest_says_is_refused_and_not_stored(place: Place, size: int) -> None:
    key = place.fresh()
    answer = place.ask("PUT", place.path(key), b"p" * size, payload="0" * 64)
    assert answer.status == 400, answer
    assert place.stored(key) is None


def test_a_decoded_length_on_a_plain_body_means_nothing(place: Place) -> None:
    key = place.fresh()
    headers = {"X-Amz-Decoded-Content-Length": "not a number"}
    assert place.ask("PUT", place.path(key), b"plain", headers=headers).status == 200
    assert place.stored(key) == b"plain"


# --- connections ---------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_their_order(place: Place) -> None:
    keys = [place.fresh() for _ in range(5)]
    with place.wire() as wire:
        wire.send(b"".join(place.request("PUT", place.path(key), key.encode()) for key in keys))
        assert [wire.answer().status for _ in keys] == [200] * 5
        wire.send(b"".join(place.request("GET", place.path(key)) for key in keys))
        assert [wire.answer().body for _ in keys] == [key.encode() for key in keys]


def test_a_request_behind_a_refused_one_is_answered(place: Place) -> None:
    key = place.fresh()
    refused = place.request("PUT", place.path(key, "tagging="), b"<not xml")
    denied = request_head(place.url, None, "PUT", place.path(key), length=300_000) + b"GET / HTTP/1.1\r\n" * 18750
    listing = place.request("GET", place.path())
    with place.wire() as wire:
        wire.send(refused + denied + listing)
        assert [wire.answer().status for _ in range(3)] == [400, 403, 200]
        wire.send(refused + listing)
        assert [wire.answer().status for _ in range(2)] == [400, 200]


def test_a_connection_serves_many_requests_and_ends_when_the_client_says_so(place: Place) -> None:
    key = place.fresh()
    with place.wire() as wire:
        for number in range(20):
            assert wire.ask(place.request("PUT", place.path(key), b"%d" % number)).status == 200
        answer = wire.ask(place.request("GET", place.path(key), headers={"Connection": "close"}))
        assert (answer.body, answer.headers["connection"]) == (b"19", "close")
        assert wire.closed


def test_an_old_client_gets_its_reply_and_the_end_of_the_connection(place: Place) -> None:
    place.s3.put_object(Bucket=place.bucket, Key="old", Body=b"old")
    for path in (place.path("old"), place.path("", "") + "?list-type=2"):
        with place.wire() as wire:
            answer = wire.ask(place.request("GET", path, version="HTTP/1.0"))
            assert answer.status == 200
            assert "transfer-encoding" not in answer.headers, "HTTP/1.0 knows no chunks"
            assert b"old" in answer.body
            assert wire.closed


def test_a_client_that_stops_sending_still_gets_its_reply(place: Place) -> None:
    key = place.fresh()
    with place.wire() as wire:
        wire.send(place.request("PUT", place.path(key), b"half-closed"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.answer().status == 200
        assert wire.closed
    assert place.stored(key) == b"half-closed"


def test_a_malformed_request_closes_the_connection_and_what_follows_is_not_looked_at(place: Place) -> None:
    key = place.fresh()
    with place.wire() as wire:
        hidden = place.request("PUT", place.path(key), b"smuggled")
        answer = wire.ask(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden
        )
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert wire.closed
    assert place.stored(key) is None


# --- reading -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(place: Place) -> bytes:
    body = bytes(range(256)) * 4096 * 5  # 5 MiB
    place.s3.put_object(Bucket=place.bucket, Key="large", Body=body)
    return body


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [("0-0", 0, 1), ("5-9", 5, 10), ("100-1048675", 100, 1048676), ("-7", -7, None), ("5242879-", -1, None)],
)
def test_a_range_is_read_exactly(place: Place, large: bytes, wanted: str, start: int, end: int | None) -> None:
    answer = place.ask("GET", place.path("large"), headers={"Range": f"bytes={wanted}"})
    assert answer.status == 206
    assert answer.body == large[start:end]
    assert answer.headers["content-range"].endswith(f"/{len(large)}")


def test_a_range_beyond_the_end_is_refused(place: Place, large: bytes) -> None:
    answer = place.ask("GET", place.path("large"), headers={"Range": f"bytes={len(large)}-"})
    assert (answer.status, answer.code) == (416, "InvalidRange")


def test_a_head_request_tells_the_length_and_sends_no_body(place: Place, large: bytes) -> None:
    with place.wire() as wire:
        answer = wire.ask(place.request("HEAD", place.path("large")), to_head=True)
        assert (answer.status, answer.headers["content-length"]) == (200, str(len(large)))
        missing = wire.ask(place.request("HEAD", place.path("no-such-key")), to_head=True)
        assert missing.status == 404
        denied = wire.ask(request_head(place.url, None, "HEAD", place.path("large")), to_head=True)
        assert (denied.status, denied.headers["content-type"]) == (403, "application/xml")
        assert int(denied.headers["content-length"]) > 0
        assert wire.ask(place.request("GET", place.path("large"))).body == large


BREAKS = [(10, 0), (10, 9), (60_000, 50_000), (MIB, 0), (4 * MIB, 1), (4 * MIB, 3 * MIB), (4 * MIB, 4 * MIB - 1)]


# --- clients that go away ------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize(("size", "sent"), BREAKS)
def test_an_upload_that_breaks_off_leaves_no_object(place: Place, size: int, sent: int, ending: str) -> None:
    key = place.fresh()
    head = request_head(place.url, place.key, "PUT", place.path(key), payload=UNSIGNED_PAYLOAD, length=size)
    wire = place.wire()
    wire.send(head + b"x" * sent)
    if ending == "reset":
        reset(wire.socket)
    else:
        wire.socket.close()
    seen_in_the_log = f'{place.path(key)} HTTP/1.1" 499 0'
    until(lambda: seen_in_the_log in (place.service.data / "log" / "access.log").read_text())
    assert place.stored(key) is None


@pytest.mark.parametrize("sent", [0, MIB])
def test_an_upload_over_an_object_that_breaks_off_leaves_the_old_one(place: Place, sent: int) -> None:
    key = place.fresh()
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"old")
    head = request_head(place.url, place.key, "PUT", place.path(key), payload=UNSIGNED_PAYLOAD, length=2 * MIB)
    wire = place.wire()
    wire.send(head + b"x" * sent)
    wire.socket.close()
    seen_in_the_log = f'{place.path(key)} HTTP/1.1" 499 0'
    until(lambda: seen_in_the_log in (place.service.data / "log" / "access.log").read_text())
    assert place.stored(key) == b"old"


def test_a_download_that_breaks_off_harms_nobody_else(place: Place, large: bytes) -> None:
    for _ in range(10):
        wire = place.wire()
        wire.send(place.request("GET", place.path("large")))
        assert wire.head().status == 200
        reset(wire.socket)
    assert place.ask("GET", place.path("large")).body == large
