"""Conditions and ranges of reads, as S3 reads them."""

from __future__ import annotations

import pytest

from tidegate.core.conditional_reads import Span, copied_span, is_not_modified, span_of
from tidegate.core.s3errors import S3Error

AT = 1_700_000_000.0
THEN, EARLIER, LATER = (
    b"Tue, 14 Nov 2023 22:13:20 GMT",
    b"Tue, 14 Nov 2023 22:13:19 GMT",
    b"Tue, 14 Nov 2023 22:13:21 GMT",
)


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [
        ({}, False),
        ({b"if-match": b'"e"'}, False),
        ({b"if-match": b'"x", "e"'}, False),
        ({b"if-match": b"*"}, False),
        ({b"if-match": b'"x"'}, "PreconditionFailed"),
        ({b"if-none-match": b'"e"'}, True),
        ({b"if-none-match": b'W/"e"'}, True),
        ({b"if-none-match": b'"x"'}, False),
        ({b"if-modified-since": THEN}, True),
        ({b"if-modified-since": LATER}, True),
        ({b"if-modified-since": EARLIER}, False),
        ({b"if-modified-since": b"no time"}, False),
        ({b"if-unmodified-since": THEN}, False),
        ({b"if-unmodified-since": EARLIER}, "PreconditionFailed"),
        ({b"if-match": b'"e"', b"if-unmodified-since": EARLIER}, False),
        ({b"if-none-match": b'"x"', b"if-modified-since": LATER}, False),
    ],
)
def test_conditions_are_weighed_as_s3_does(headers: dict[bytes, bytes], outcome: bool | str) -> None:
    if isinstance(outcome, str):
        with pytest.raises(S3Error) as error:
            is_not_modified(headers, "e", AT)
        assert error.value.code == outcome
    else:
        assert is_not_modified(headers, "e", AT) is outcome


def test_a_copy_fails_where_a_read_would_not_be_sent() -> None:
    prefix = b"x-amz-copy-source-"
    for headers in ({prefix + b"if-none-match": b'"e"'}, {prefix + b"if-modified-since": THEN}):
        with pytest.raises(S3Error) as error:
            is_not_modified(headers, "e", AT, prefix=prefix)
        assert error.value.code == "PreconditionFailed"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (None, Span(0, 10)),
        (b"bytes=0-0", Span(0, 1, True)),
        (b"bytes=3-", Span(3, 7, True)),
        (b"bytes=3-100", Span(3, 7, True)),
        (b"bytes=-4", Span(6, 4, True)),
        (b"bytes=-40", Span(0, 10, True)),
        (b"bytes=9-9", Span(9, 1, True)),
        (b"bytes=0-1,3-4", Span(0, 10)),
        (b"lines=1-2", Span(0, 10)),
    ],
)
def test_ranges(text: bytes | None, span: Span) -> None:
    assert span_of(text, 10) == span


@pytest.mark.parametrize("text", [b"bytes=10-", b"bytes=-0", b"bytes=4-3", b"bytes=-", b"bytes=x-y"])
def test_ranges_that_cannot_be_satisfied_are_refused(text: bytes) -> None:
    with pytest.raises(S3Error) as error:
        span_of(text, 10)
    assert (error.value.code, error.value.headers["Content-Range"]) == ("InvalidRange", "bytes */10")


def test_parts_are_told_by_their_sizes() -> None:
    assert span_of(None, 10, part_number=1, parts=(4, 6)) == Span(0, 4, True)
    assert span_of(None, 10, part_number=2, parts=(4, 6)) == Span(4, 6, True)
    assert span_of(None, 10, part_number=1) == Span(0, 10, True)
    with pytest.raises(S3Error) as error:
        span_of(None, 10, part_number=3, parts=(4, 6))
    assert error.value.code == "InvalidPartNumber"


def test_a_copied_range_must_be_there_whole() -> None:
    assert copied_span(None, 10) == Span(0, 10)
    assert copied_span(b"bytes=2-9", 10) == Span(2, 8, True)
    for text in (b"bytes=2-10", b"bytes=2-", b"bytes=-2", b"bytes=3-2", b"2-9"):
        with pytest.raises(S3Error) as error:
            copied_span(text, 10)
        assert error.value.code == "InvalidArgument"
