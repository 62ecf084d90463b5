"""What a read of an object asks for: whether its conditions hold, and which bytes are meant, as S3 reads RFC 9110."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.core.identities import moment
from tidegate.core.s3errors import S3Error

Headers = Mapping[bytes, bytes]

_RANGE = re.compile(rb"bytes=(\d{0,19})-(\d{0,19})")
_MATCH, _NONE_MATCH = b"if-match", b"if-none-match"
_MODIFIED, _UNMODIFIED = b"if-modified-since", b"if-unmodified-since"


class Span(NamedTuple):
    """The bytes that are meant. `is_part`: not the whole object, as the client asked."""

    start: int
    length: int
    is_part: bool = False


def is_not_modified(headers: Headers, etag: str, last_modified: float, *, prefix: bytes = b"") -> bool:
    """Whether a client that has the object already need not be sent it. Raises `S3Error` if a condition fails. A copy's
    conditions have a `prefix`, and fail where a read would be answered by 304."""
    given = {name: headers[prefix + name].decode("latin-1") for name in _CONDITIONS if prefix + name in headers}
    if _MATCH in given:
        if not _has(given[_MATCH], etag):
            raise _failed("If-Match")
    elif _is_before(given.get(_UNMODIFIED), last_modified):
        raise _failed("If-Unmodified-Since")
    if _NONE_MATCH in given:
        has_it = _has(given[_NONE_MATCH], etag)
    else:
        since = moment(given[_MODIFIED]) if _MODIFIED in given else None
        has_it = since is not None and int(last_modified) <= since
    if has_it and prefix:
        raise _failed("If-None-Match" if _NONE_MATCH in given else "If-Modified-Since")
    return has_it


_CONDITIONS = (_MATCH, _NONE_MATCH, _MODIFIED, _UNMODIFIED)


def span_of(text: bytes | None, size: int, *, part_number: int = 0, parts: Sequence[int] = ()) -> Span:
    """Of a Range header, or of a part of an object that was uploaded in `parts`. Several ranges at once, and
    units other than bytes, are passed over. Raises `S3Error`."""
    if part_number:
        return _part(part_number, parts or (size,))
    if not text or b"," in text or not text.strip().startswith(b"bytes="):
        return Span(0, size)
    found = _RANGE.fullmatch(text.strip())
    first, last = found.groups() if found is not None else (b"", b"")
    if not first:
        length = min(int(last or b"0"), size)
        if not length:
            raise _unsatisfiable(size)
        return Span(size - length, length, True)
    start = int(first)
    if start >= size or (last and int(last) < start):
        raise _unsatisfiable(size)
    return Span(start, min(int(last), size - 1) - start + 1 if last else size - start, True)


def copied_span(text: bytes | None, size: int) -> Span:
    """Of the header x-amz-copy-source-range, which must name bytes that are all there."""
    if text is None:
        return Span(0, size)
    found = _RANGE.fullmatch(text.strip())
    if found is None or not found[1] or not found[2] or int(found[2]) < int(found[1]):
        raise S3Error("InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last")
    first, last = int(found[1]), int(found[2])
    if last >= size:
        raise S3Error("InvalidArgument", f"Range specified is not valid for source object of size: {size}")
    return Span(first, last - first + 1, True)


def _part(number: int, parts: Sequence[int]) -> Span:
    if number > len(parts):
        raise S3Error("InvalidPartNumber")
    return Span(sum(parts[: number - 1]), parts[number - 1], True)


def _has(text: str, etag: str) -> bool:
    """Whether an ETag is among those that a header names; weak ones are compared as strong ones."""
    names = [name.strip().removeprefix("W/").strip('"') for name in text.split(",")]
    return "*" in names or etag in names


def _is_before(text: str | None, last_modified: float) -> bool:
    limit = moment(text) if text is not None else None
    return limit is not None and limit < int(last_modified)


def _unsatisfiable(size: int) -> S3Error:
    return S3Error("InvalidRange", headers={"Content-Range": f"bytes */{size}"})


def _failed(condition: str) -> S3Error:
    return S3Error("PreconditionFailed", fields={"Condition": condition})
