"""Heads of responses, as servers may write them."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest

from tidegate.adapters.http_response import Response


class Wire:
    """What `http.client` needs of a socket to read a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self._data))


def read(data: bytes, method: str = "GET") -> Response:
    wire: Any = Wire(data)
    response = Response(wire, method=method)
    response.begin()
    return response


def test_names_are_in_lower_case_and_values_are_text_that_can_be_sent_on() -> None:
    found = read(
        b'HTTP/1.1 200 OK\r\nETag:  "e" \r\nX-Amz-Meta-A: \xc3\xbc\r\nX-Odd: \xff\r\nContent-Length: 2\r\n\r\nok'
    )
    assert found.fields == {"etag": '"e"', "x-amz-meta-a": "ü", "x-odd": "\udcff", "content-length": "2"}
    assert (found.status, found.read(), found.will_close) == (200, b"ok", False)


def test_what_comes_twice_is_joined_and_of_two_lengths_the_first_counts() -> None:
    found = read(b"HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nContent-Length: 3\r\nContent-Length: 99\r\n\r\nabc")
    assert (found.fields["a"], found.read()) == ("1, 2", b"abc")


def test_a_folded_line_is_one_value() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\nContent-Length: 0\r\n\r\n").fields["a"] == "1 2"


def test_an_interim_response_is_passed_over() -> None:
    found = read(b"HTTP/1.1 100 Continue\r\nA: 1\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    assert (found.status, found.fields, found.read()) == (204, {}, b"")


def test_an_answer_to_head_has_no_body() -> None:
    found = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD")
    assert (found.length, found.read(), found.will_close) == (0, b"", False)


def test_a_body_in_chunks_is_read_to_its_end() -> None:
    found = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert (found.read(), found.will_close) == (b"abc", False)


@pytest.mark.parametrize(
    ("head", "closes"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: odd", True),
        (b"HTTP/1.1 200 OK", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0", False),
    ],
)
def test_a_connection_is_kept_where_the_end_of_the_body_is_known(head: bytes, closes: bool) -> None:
    assert read(head + b"\r\n\r\n").will_close is closes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"tide\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: 1\r\n" * 101 + b"\r\n",
    ],
)
def test_what_is_no_response_is_an_error(data: bytes) -> None:
    with pytest.raises(http.client.HTTPException):
        read(data)
