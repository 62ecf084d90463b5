"""Heads and framing: what a proxy must not pass on is refused, the rest goes on byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.http.http1 import LAST_CHUNK, BadMessage, ChunkedDecoder, RequestHead, ResponseHead, chunk

HOST = b"Host: gate\r\n"


def request(line: bytes = b"GET /b/k HTTP/1.1", headers: bytes = HOST) -> bytes:
    return line + b"\r\n" + headers + b"\r\n"


# --- requests ------------------------------------------------------------------------------------


def test_a_head_is_taken_apart() -> None:
    head = RequestHead(request(b"PUT /b/k%20y?uploadId=1&x HTTP/1.1", HOST + b"CONTENT-length: 12\r\nX-Empty:\r\n"))
    assert (head.method, head.path, head.query) == (b"PUT", b"/b/k%20y", b"uploadId=1&x")
    assert head.target == b"/b/k%20y?uploadId=1&x"
    assert head.headers == {b"host": b"gate", b"content-length": b"12", b"x-empty": b""}
    assert (head.content_length, head.chunked, head.keep_alive, head.is_1_1) == (12, False, True, True)


def test_repeated_headers_are_joined_in_their_order() -> None:
    head = RequestHead(request(headers=HOST + b"X-A: 1\r\nx-b: 2\r\nx-a: 3\r\n"))
    assert head.headers[b"x-a"] == b"1,3"


@pytest.mark.parametrize(
    "line",
    [
        b"GET /a b HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET /  HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET /\x01 HTTP/1.1",
        b"GET /\x7f HTTP/1.1",
        b"GET /a\x00b HTTP/1.1",
        b"GET /a#fragment HTTP/1.1",
        b"GET http://elsewhere/a HTTP/1.1",
        b"GET a HTTP/1.1",
        b"GET * HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT host:443 HTTP/1.1",
        b"GET / HTTP/1.2",
        b"GET / HTTP/2.0",
        b"GET / HTTP/0.9",
        b"GET / HTTP/11",
        b"GET / HTTP/1.1 ",
        b"GET / http/1.1",
        b"GET / RTSP/1.0",
        b"SOURCE / ICE/1.0",
        b"PRI * HTTP/2.0",
        b"GET /",
        b"GET",
        b"get / HTTP/1.1",
        b"HTTP/1.1 200 OK",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_a_malformed_request_line_is_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        RequestHead(request(line))


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        HOST + b"Host: other\r\n",
        HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n",
        HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n",
        HOST + b"Content-Length: 5, 5\r\n",
        HOST + b"Content-Length: +5\r\n",
        HOST + b"Content-Length: -5\r\n",
        HOST + b"Content-Length: 0x5\r\n",
        HOST + b"Content-Length: 5 5\r\n",
        HOST + b"Content-Length:\r\n",
        HOST + b"Content-Length: five\r\n",
        HOST + b"Content-Length: 99999999999999999999\r\n",
        HOST + b"Content-Length: 10995116277761\r\n",
        HOST + b"Content-Length : 5\r\n",
        HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        HOST + b"Transfer-Encoding: gzip, chunked\r\n",
        HOST + b"Transfer-Encoding: chunked, identity\r\n",
        HOST + b"Transfer-Encoding: identity\r\n",
        HOST + b"Transfer-Encoding: xchunked\r\n",
        HOST + b"Transfer-Encoding:\r\n",
        HOST + b"Transfer-Encoding\r\n",
        HOST + b"Authorization: a\r\nAuthorization: b\r\n",
        HOST + b"x-amz-date: a\r\nX-Amz-Date: b\r\n",
        HOST + b"Expect: 100-continue\r\nExpect: 100-continue\r\n",
        HOST + b"X: folded\r\n onto the next line\r\n",
        HOST + b"X: a\rb\r\n",
        HOST + b"X: a\nb\r\n",
        HOST + b"X: a\x00b\r\n",
        HOST + b"X: a\x01b\r\n",
        HOST + b"X: a\x7fb\r\n",
        HOST + b"X\xc3: a\r\n",
        HOST + b": no name\r\n",
        HOST + b"Connection: x-amz-copy-source\r\n",
        HOST + b"Connection: close, if-match\r\n",
        HOST + b"Connection: host\r\n",
    ],
)
def test_headers_that_could_hide_a_second_request_are_refused(headers: bytes) -> None:
    with pytest.raises(BadMessage):
        RequestHead(request(b"PUT /b/k HTTP/1.1", headers))


def test_bare_line_feeds_are_refused_anywhere() -> None:
    for raw in (b"GET / HTTP/1.1\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"):
        with pytest.raises(BadMessage):
            RequestHead(raw)


def test_the_longest_body_is_accepted_and_one_byte_more_is_not() -> None:
    longest = 2 * 5 * 1024**4
    assert RequestHead(request(headers=HOST + b"Content-Length: %d\r\n" % longest)).content_length == longest
    with pytest.raises(BadMessage):
        RequestHead(request(headers=HOST + b"Content-Length: %d\r\n" % (longest + 1)))


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked", b"CHUNKED"])
def test_chunked_is_recognized_in_any_case(coding: bytes) -> None:
    head = RequestHead(request(headers=HOST + b"Transfer-Encoding: " + coding + b"\r\n"))
    assert (head.chunked, head.content_length) == (True, 0)


@pytest.mark.parametrize(
    ("line", "headers", "stays"),
    [
        (b"GET / HTTP/1.1", b"", True),
        (b"GET / HTTP/1.1", b"Connection: keep-alive\r\n", True),
        (b"GET / HTTP/1.1", b"Connection: Close\r\n", False),
        (b"GET / HTTP/1.1", b"Connection: TE, close\r\n", False),
        (b"GET / HTTP/1.0", b"", False),
        (b"GET / HTTP/1.0", b"Connection: keep-alive\r\n", False),
    ],
)
def test_a_connection_is_kept_as_its_version_and_header_say(line: bytes, headers: bytes, stays: bool) -> None:
    assert RequestHead(request(line, HOST + headers)).keep_alive is stays


def test_an_old_request_needs_no_host() -> None:
    assert RequestHead(b"GET / HTTP/1.0\r\n\r\n").headers == {}


def test_an_offer_to_change_the_protocol_is_ignored() -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
    head = RequestHead(request(headers=HOST + offer))
    assert (head.method, head.target) == (b"GET", b"/b/k")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_a_bad_message(raw: bytes) -> None:
    try:
        head = RequestHead(raw + b"\r\n\r\n")
    except BadMessage:
        return
    assert head.path.startswith(b"/")


# --- responses -----------------------------------------------------------------------------------


def response(headers: bytes, line: bytes = b"HTTP/1.1 200 OK", *, to_head: bool = False) -> ResponseHead:
    return ResponseHead(line + b"\r\n" + headers + b"\r\n", to_head_request=to_head)


@pytest.mark.parametrize(
    ("headers", "line", "to_head", "length", "chunked", "keep_alive"),
    [
        (b"Content-Length: 5\r\n", b"HTTP/1.1 200 OK", False, 5, False, True),
        (b"Content-Length: 0\r\n", b"HTTP/1.1 200 OK", False, 0, False, True),
        (b"Content-Length: 5\r\n", b"HTTP/1.1 200 OK", True, 0, False, True),
        (b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1 200 OK", False, None, True, True),
        (b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1 200 OK", True, 0, False, True),
        (b"", b"HTTP/1.1 200 OK", False, None, False, False),
        (b"", b"HTTP/1.1 204 No Content", False, 0, False, True),
        (b"ETag: x\r\n", b"HTTP/1.1 304 Not Modified", False, 0, False, True),
        (b"Content-Length: 5\r\nConnection: close\r\n", b"HTTP/1.1 200 OK", False, 5, False, False),
        (b"Content-Length: 0\r\nConnection: Close\r\n", b"HTTP/1.1 200 OK", False, 0, False, False),
        (b"Content-Length: 5\r\n", b"HTTP/1.0 200 OK", False, 5, False, False),
        (b"", b"HTTP/1.1 100 Continue", False, 0, False, True),
    ],
)
def test_a_response_says_where_it_ends_and_whether_the_connection_stays(
    headers: bytes, line: bytes, to_head: bool, length: int | None, chunked: bool, keep_alive: bool
) -> None:
    head = response(headers, line, to_head=to_head)
    assert (head.length, head.chunked, head.keep_alive) == (length, chunked, keep_alive)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_a_response_that_is_none_is_a_bad_message(raw: bytes) -> None:
    with pytest.raises(BadMessage):
        ResponseHead(raw, to_head_request=False)


# --- chunks --------------------------------------------------------------------------------------

BODY = b"5;name=value\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize("kind", [False, True], ids=["request", "response"])
@pytest.mark.parametrize("at", range(1, len(BODY)))
def test_a_split_at_any_byte_gives_the_same_payload(at: int, kind: bool) -> None:
    decoder = ChunkedDecoder(response=kind)
    first = decoder.feed(BODY[:at])
    assert not decoder.complete
    assert first + decoder.feed(BODY[at:]) == b"hello, world"
    assert decoder.complete and not decoder.excess


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.lists(st.integers(1, 30), max_size=40))
def test_any_payload_in_any_pieces_comes_out_whole(chunks: list[bytes], sizes: list[int]) -> None:
    wire = b"".join(chunk(piece) for piece in chunks) + LAST_CHUNK
    decoder, found, at = ChunkedDecoder(), b"", 0
    for size in sizes:
        if at < len(wire):
            found += decoder.feed(wire[at : at + size])
            at += size
    if at < len(wire):
        found += decoder.feed(wire[at:])
    assert (found, decoder.complete, decoder.excess) == (b"".join(chunks), True, False)


@pytest.mark.parametrize("more", [b"GET / HTTP/1.1\r\n", b"x", b"\x00", b"0\r\n\r\n"])
@pytest.mark.parametrize("together", [True, False])
def test_bytes_behind_the_end_are_told_of(more: bytes, together: bool) -> None:
    decoder = ChunkedDecoder()
    pieces = [BODY + more] if together else [BODY, more]
    assert b"".join(decoder.feed(piece) for piece in pieces) == b"hello, world"
    assert decoder.complete and decoder.excess


@pytest.mark.parametrize(
    "wire",
    [
        b"x\r\n",
        b"-1\r\n",
        b"0x5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b" 5\r\nhello\r\n",
        b"fffffffffffffffff\r\n",
        b"\r\n",
        b"0\r\nno colon\r\n\r\n",
    ],
)
def test_broken_chunk_framing_is_a_bad_message(wire: bytes) -> None:
    with pytest.raises(BadMessage):
        ChunkedDecoder().feed(wire)


def test_an_empty_piece_makes_no_chunk() -> None:
    assert chunk(b"") == b""  # it would end the body
