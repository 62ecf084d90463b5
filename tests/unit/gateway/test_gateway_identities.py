"""The identity that a conditional delete names, compared with what the store shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.answers import _matches, _time
from tidegate.gateway.backend import Reply
from tidegate.gateway.http1 import ResponseHead

MOMENT = 1_700_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


def stored(size: int = 5, modified: str = "Tue, 14 Nov 2023 22:13:20 GMT") -> Reply:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nLast-Modified: {modified}\r\n\r\n"
    return Reply(ResponseHead(head.encode(), to_head_request=True), b"")


@pytest.mark.parametrize(
    "text",
    [
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "Tue, 14 Nov 2023 23:13:20 +0100",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20.999Z",
        "2023-11-14T23:13:20+01:00",
    ],
)
def test_a_time_is_read_in_every_usual_form(text: str) -> None:
    assert _time(text) == MOMENT
    assert _matches(stored(), text, None)


@given(st.text(max_size=60))
def test_no_text_is_too_odd_to_be_refused_as_a_time(text: str) -> None:
    found = _time(text)
    assert found is None or isinstance(found, int)


@pytest.mark.parametrize("text", ["", "Mon, 99 Foo 99999 99:99:99 GMT", "a b c d e f", "1 Jan 99999999999 0:0:0 +0000"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert _time(text) is None
    assert not _matches(stored(), text, None)


@pytest.mark.parametrize(
    ("modified", "size", "same"),
    [
        (None, None, True),
        (None, 5, True),
        (None, 4, False),
        (None, 6, False),
        ("2023-11-14T22:13:20Z", 5, True),
        ("2023-11-14T22:13:21Z", 5, False),
        ("2023-11-14T22:13:19Z", 5, False),
        ("2023-11-14T22:13:20Z", 6, False),
    ],
)
def test_every_part_that_is_named_must_match(modified: str | None, size: int | None, same: bool) -> None:
    assert _matches(stored(), modified, size) is same


def test_a_store_that_tells_no_time_matches_none() -> None:
    assert not _matches(stored(modified="never"), "2023-11-14T22:13:20Z", None)
