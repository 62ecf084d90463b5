"""The canonical form of a request, as Signature Version 4 for S3 defines it: what is hashed and signed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

_UNRESERVED_AND_SLASH = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
# An escape in capitals of a byte that needs one; most clients send nothing else, and then nothing is to be done.
_ESCAPE = rb"%(?!2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])[0-9A-F]{2}"
_ENCODED_PATH = re.compile(rb"(?:[A-Za-z0-9._~/-]++|(?!%2F)" + _ESCAPE + rb")*+")
_ENCODED_PAIR = re.compile(rb"(?:[A-Za-z0-9._~-]++|" + _ESCAPE + rb")*+(?:=(?:[A-Za-z0-9._~-]++|" + _ESCAPE + rb")*+)?")

Pair = tuple[bytes, bytes]


def canonical_path(path: bytes) -> bytes:
    """Decoded and encoded again once; slashes stay, and dot segments and double slashes mean what they say."""
    if not path.translate(None, _UNRESERVED_AND_SLASH) or _ENCODED_PATH.fullmatch(path):
        return path or b"/"
    return quote_from_bytes(unquote_to_bytes(path), safe="/~").encode()


def canonical_pairs(query: bytes) -> list[Pair]:
    """Names and values of a query, canonically encoded and sorted. A plus sign is a space, as in S3."""
    pairs = []
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((name, value) if _ENCODED_PAIR.fullmatch(part) else (_encoded(name), _encoded(value)))
    pairs.sort()
    return pairs


def _encoded(text: bytes) -> bytes:
    return quote_from_bytes(unquote_to_bytes(text.replace(b"+", b" ")), safe="~").encode()


def decoded(text: bytes) -> bytes:
    """The plain value of a canonically encoded one."""
    return unquote_to_bytes(text)


def canonical_query(pairs: Iterable[Pair]) -> bytes:
    return b"&".join([name + b"=" + value for name, value in pairs])


def canonical_headers(headers: Mapping[bytes, bytes], signed: Iterable[bytes]) -> bytes:
    """One line per signed header, its value trimmed and each run of blanks in it made one space."""
    lines = b"\n".join([name + b":" + headers[name].strip() for name in signed])
    if b"  " in lines or b"\t" in lines:
        return b"\n".join([name + b":" + b" ".join(headers[name].split()) for name in signed])
    return lines


def canonical_request(
    method: bytes,
    path: bytes,
    pairs: list[Pair],
    headers: Mapping[bytes, bytes],
    signed: Sequence[bytes],
    payload: bytes,
) -> bytes:
    """Raises KeyError with the name of a signed header that the request does not have."""
    return b"%b\n%b\n%b\n%b\n\n%b\n%b" % (
        method,
        canonical_path(path),
        canonical_query(pairs) if pairs else b"",
        canonical_headers(headers, signed),
        b";".join(signed),
        payload,
    )
