"""The one codec of messages, events and stored records: JSON, written and read by msgspec.

Readers ignore fields that a newer version has added; what is malformed raises `InvalidInput`. UTF-8 has no lone
surrogates, which names of files may have: they are written as JSON's escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Self, TypeVar

import msgspec

from tidegate.core.errors import InvalidInput

_T = TypeVar("_T")
_in_order = msgspec.json.Encoder()
_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
_sorted = msgspec.json.Encoder(order="sorted")


class JsonRecord:
    """A frozen dataclass that is stored as a JSON object."""

    __slots__ = ()

    def to_json(self) -> str:
        return to_text(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return decoded(text, cls, f"stored {cls.__name__}")


def to_bytes(value: object) -> bytes:
    """A message, its fields in the order of their definition."""
    try:
        return _in_order.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def to_text(value: object) -> str:
    """A record, its fields sorted: equal records have equal texts, which tables compare."""
    try:
        return _sorted.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"), sort_keys=True)


def decoded(data: str | bytes, kind: type[_T], what: str) -> _T:
    try:
        found: _T = _decoder(kind).decode(data)
        return found
    except (msgspec.ValidationError, RecursionError) as error:
        raise _not_a(what, error, data) from None
    except ValueError:
        pass  # msgspec reads no lone surrogates, the standard library does
    try:
        return msgspec.convert(json.loads(data), kind)
    except (ValueError, RecursionError) as error:
        raise _not_a(what, error, data) from None


def converted(values: dict[str, Any], kind: type[_T], what: str) -> _T:
    """Of what was decoded as a dictionary."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise _not_a(what, error, str(values)) from None


def complete(values: dict[str, Any], kind: type[_T], what: str) -> _T:
    """As `converted`, and no field may be missing: for records whose defaults must not stand in for what was lost."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if missing := names - set(values):
        raise InvalidInput(f"a {what} lacks {', '.join(sorted(missing))}")
    return converted(values, kind, what)


def _not_a(what: str, error: Exception, data: str | bytes) -> InvalidInput:
    return InvalidInput(f"not {'an' if what[0] in 'aeiou' else 'a'} {what}: {error} in {data[:200]!r}")
