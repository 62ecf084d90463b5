"""What a client asks of a listing, and where pages go on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.list_requests import START, ListRequest, Position, list_request, marked, position_of, token
from tidegate.core.ordered_listing import PAST
from tidegate.core.s3errors import S3Error


def request(prefix: str = "", delimiter: str = "") -> ListRequest:
    return ListRequest(prefix, delimiter, is_encoded=False, limit=1000)


@given(st.text(min_size=1), st.booleans(), st.booleans())
def test_a_token_leads_to_where_the_page_ended(name: str, is_prefix: bool, is_clean: bool) -> None:
    if name.encode(errors="ignore").decode() != name:
        return
    position = Position(name, is_prefix=is_prefix, is_clean=is_clean and not is_prefix)
    assert position_of(token(position)) == position


@pytest.mark.parametrize("text", ["", "k", "key", "a/b", "x" * 50, "\u00e9", "====", token(Position("a"))[:1]])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(S3Error) as refusal:
        position_of(text)
    assert refusal.value.code == "InvalidArgument"


@pytest.mark.parametrize(
    ("prefix", "delimiter", "marker", "is_prefix"),
    [
        ("", "", "a/", False),
        ("", "/", "a/", True),
        ("", "/", "a/b", False),
        ("", "/", "a/b/", False),
        ("a/", "/", "a/", False),
        ("a/", "/", "a/b/", True),
        ("b", "/", "a/", False),
        ("", "--", "x--", True),
        ("", "--", "x-", False),
    ],
)
def test_a_marker_that_is_a_common_prefix_passes_over_it(
    prefix: str, delimiter: str, marker: str, is_prefix: bool
) -> None:
    position = marked(request(prefix, delimiter), marker)
    assert position.is_prefix is is_prefix
    assert position.after == (marker + PAST if is_prefix else marker)


def test_without_a_marker_a_listing_begins_at_the_beginning() -> None:
    assert marked(request(delimiter="/"), "") == START
    assert START.after == ""


@pytest.mark.parametrize(
    ("given", "limit"), [(None, 1000), ("", 1000), ("0", 0), ("7", 7), ("1000", 1000), ("1001", 1000)]
)
def test_a_page_has_at_most_a_thousand_entries(given: str | None, limit: int) -> None:
    assert list_request({"max-keys": given} if given is not None else {}, "max-keys").limit == limit


@pytest.mark.parametrize("given", ["-1", "1.0", "x", "2147483648", "\u0663", "1 "])
def test_what_is_no_number_of_entries_is_refused(given: str) -> None:
    with pytest.raises(S3Error):
        list_request({"max-keys": given}, "max-keys")
