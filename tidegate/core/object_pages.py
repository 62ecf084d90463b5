"""Reading a backend's listing of current objects (ListObjectsV2).

An entry is kept as the backend wrote it, so that the gateway can put entries into another order without reading all of
what they say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from tidegate.core.documents import backend_document, content_xml, local_name
from tidegate.core.errors import Unavailable
from tidegate.core.identities import Identity, moment
from tidegate.core.listing_entries import unescaped

# A thousand entries of a dozen elements, an owner's included; the gateway asks for a few more than a thousand.
_MOST_TAGS = 41_000
_BEGINNING, _END = b"<Contents><Key>", b"</Contents>"
_PREFIX = re.compile(rb"<CommonPrefixes><Prefix>([^<]*)</Prefix></CommonPrefixes>")
_TEXT = {name: re.compile(b"<%b>([^<]*)</%b>" % (name, name)) for name in (b"EncodingType", b"IsTruncated")}


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """Entries by key and common prefixes, in the order of the listing."""

    entries: dict[str, bytes]
    prefixes: tuple[str, ...]
    is_truncated: bool


def parse_object_page(body: bytes) -> ObjectPage:
    """A page of the usual shape is cut where its entries begin, which costs a tenth of parsing it."""
    head, *parts = body.split(_BEGINNING)
    rest = head
    if parts:
        end = parts[-1].find(_END) + len(_END)
        rest, parts[-1] = head + parts[-1][end:], parts[-1][:end]
    prefixes = _PREFIX.findall(rest)
    is_usual = all(part.endswith(_END) for part in parts) and body.count(b"<Contents>") == len(parts)
    if not is_usual or body.count(_END) != len(parts) or body.count(b"<CommonPrefixes>") != len(prefixes):
        return _parsed_slowly(body)
    if not parts and not prefixes:
        _root(body)
    is_encoded = _text(rest, b"EncodingType") == b"url"
    try:
        keys = _names([part[: part.find(b"<")] for part in parts], is_encoded)
        return ObjectPage(
            dict(zip(keys, [_BEGINNING + part for part in parts], strict=True)),
            tuple(_names(prefixes, is_encoded)),
            _text(rest, b"IsTruncated") == b"true",
        )
    except ValueError:
        return _parsed_slowly(body)


def _names(texts: list[bytes], is_encoded: bool) -> list[str]:
    """Most have nothing that must be undone."""
    joined = b"\n".join(texts).decode()
    names = joined.split("\n")
    if "&" in joined or (is_encoded and ("%" in joined or "+" in joined)) or len(names) != len(texts):
        return [_name(text, is_encoded) for text in texts]
    return names


def identity_of(entry: bytes) -> Identity:
    """Of an object, as its entry tells it."""
    node = backend_document(entry)
    etag, size, modified = (_child(node, name) for name in ("ETag", "Size", "LastModified"))
    if size and not (size.isascii() and size.isdigit() and len(size) < 20):
        raise Unavailable(f"the backend's listing has a size that is none: {size!r}")
    return Identity(etag.strip('"'), int(size or -1), moment(modified))


def _text(body: bytes, name: bytes) -> bytes:
    found = _TEXT[name].search(body)
    return found[1] if found is not None else b""


def _name(text: bytes, is_encoded: bool) -> str:
    name = unescaped(text.decode())
    return unquote_plus(name) if is_encoded else name


def _parsed_slowly(body: bytes) -> ObjectPage:
    """A page of another shape."""
    root = _root(body)
    is_encoded = _child(root, "EncodingType") == "url"
    entries: dict[str, bytes] = {}
    prefixes: list[str] = []
    for node in root:
        if local_name(node) == "Contents":
            key = _child(node, "Key")
            entry = f"<Contents>{content_xml(node)}</Contents>".encode()
            entries[unquote_plus(key) if is_encoded else key] = entry
        elif local_name(node) == "CommonPrefixes":
            prefix = _child(node, "Prefix")
            prefixes.append(unquote_plus(prefix) if is_encoded else prefix)
    return ObjectPage(entries, tuple(prefixes), _child(root, "IsTruncated") == "true")


def _root(body: bytes) -> Element:
    root = backend_document(body, _MOST_TAGS)
    if local_name(root) != "ListBucketResult":
        raise Unavailable(f"the backend answered a listing with {local_name(root)}")
    return root


def _child(node: Element, name: str) -> str:
    return next((child.text or "" for child in node if local_name(child) == name), "")
