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
_ENTRY = re.compile(rb"<Contents><Key>([^<]*)</Key>(?:[^<]|<(?!/Contents>))*</Contents>")
_PREFIX = re.compile(rb"<CommonPrefixes><Prefix>([^<]*)</Prefix></CommonPrefixes>")
_TEXT = {name: re.compile(b"<%b>([^<]*)</%b>" % (name, name)) for name in (b"EncodingType", b"IsTruncated")}


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """Entries by key and common prefixes, in the order of the listing."""

    entries: dict[str, bytes]
    prefixes: tuple[str, ...]
    is_truncated: bool


def parse_object_page(body: bytes) -> ObjectPage:
    is_encoded = _text(body, b"EncodingType") == b"url"
    matches = list(_ENTRY.finditer(body))
    prefixes = _PREFIX.findall(body)
    if len(matches) != body.count(b"<Contents>") or len(prefixes) != body.count(b"<CommonPrefixes>"):
        return _parsed_slowly(body)
    if not matches and not prefixes:
        _root(body)
    is_truncated = _text(body, b"IsTruncated") == b"true"
    try:
        keys = [_name(match[1], is_encoded) for match in matches]
        return ObjectPage(
            dict(zip(keys, (match[0] for match in matches), strict=True)),
            tuple(_name(prefix, is_encoded) for prefix in prefixes),
            is_truncated,
        )
    except ValueError:
        return _parsed_slowly(body)


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
    return unquote_plus(name) if is_encoded and ("%" in name or "+" in name) else name


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
