"""What a client asks of a listing: parameters read, and the places where pages go on."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from tidegate.core.operations import Parameters
from tidegate.core.ordered_listing import PAST
from tidegate.core.s3errors import S3Error

MOST_ENTRIES = 1000
_LARGEST_NUMBER = 2**31 - 1
# The first letter of a token: a key, a key after which no folder is hidden from the store, or a common prefix.
_KEY, _CLEAN_KEY, _COMMON_PREFIX = "k", "c", "p"


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What all listings have in common."""

    prefix: str
    delimiter: str
    is_encoded: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a listing goes on: after a name, or after a common prefix with all that is rolled up in it. `is_clean`: it
    is known that no folder is hidden from a store that goes on from there."""

    name: str = ""
    is_prefix: bool = False
    is_clean: bool = False

    @property
    def after(self) -> str:
        return self.name + PAST if self.is_prefix else self.name


START = Position(is_clean=True)


def list_request(parameters: Parameters, limit_name: str) -> ListRequest:
    """Raises `S3Error`."""
    encoding = parameters.get("encoding-type", "")
    if encoding not in ("", "url"):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    text = parameters.get(limit_name, "") or str(MOST_ENTRIES)
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST_NUMBER):
        raise S3Error("InvalidArgument", f"Argument {limit_name} must be an integer between 0 and {_LARGEST_NUMBER}")
    return ListRequest(
        prefix=parameters.get("prefix", ""),
        delimiter=parameters.get("delimiter", ""),
        is_encoded=encoding == "url",
        limit=min(int(text), MOST_ENTRIES),
    )


def marked(request: ListRequest, marker: str) -> Position:
    """After a marker that a client chose. One that ends where a common prefix ends is that prefix."""
    if not marker:
        return START
    delimiter, beyond = request.delimiter, marker[len(request.prefix) :]
    is_prefix = (
        bool(delimiter)
        and marker.startswith(request.prefix)
        and beyond.find(delimiter) == len(beyond) - len(delimiter) >= 0
    )
    return Position(marker, is_prefix)


def token(position: Position) -> str:
    """Where the next page of ListObjectsV2 begins; clients only pass it on."""
    kind = _COMMON_PREFIX if position.is_prefix else _CLEAN_KEY if position.is_clean else _KEY
    return urlsafe_b64encode((kind + position.name).encode()).decode().rstrip("=")


def position_of(text: str) -> Position:
    """Raises `S3Error` for what is no token."""
    try:
        decoded = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)).decode()
    except (ValueError, binascii.Error):
        decoded = ""
    kind, name = decoded[:1], decoded[1:]
    if kind not in (_KEY, _CLEAN_KEY, _COMMON_PREFIX) or not name:
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect")
    return Position(name, is_prefix=kind == _COMMON_PREFIX, is_clean=kind == _CLEAN_KEY)
