"""Reading a backend's listings of versions, of open uploads and of their parts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from tidegate.core.documents import backend_document, is_of_bearable_size, local_name, plain_text
from tidegate.core.errors import Unavailable
from tidegate.core.listing_entries import FIELDS, KINDS, Groups, usual_entries

# A thousand entries of a dozen elements, an owner's included.
_MOST_TAGS = 40_000


class ListedVersion(NamedTuple):
    """`modified` is the store's own text for its time."""

    key: str
    version_id: str
    is_latest: bool
    is_marker: bool
    last_modified: float
    etag: str = ""
    size: int = 0
    storage_class: str = ""
    modified: str = ""


class ListedUpload(NamedTuple):
    key: str
    upload_id: str
    initiated: float
    started: str = ""


@dataclass(frozen=True, slots=True)
class VersionPage:
    """`prefixes` are what a delimiter rolled up. The markers lead to the next page, if there is one."""

    versions: tuple[ListedVersion, ...]
    prefixes: tuple[str, ...] = ()
    is_truncated: bool = False
    next_key: str = ""
    next_version_id: str = ""


@dataclass(frozen=True, slots=True)
class UploadPage:
    uploads: tuple[ListedUpload, ...]
    is_truncated: bool = False
    next_key: str = ""
    next_upload_id: str = ""


class ListedPart(NamedTuple):
    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class PartPage:
    """Parts of an upload; `next_number` leads to the next page, if there is one."""

    parts: tuple[ListedPart, ...]
    is_truncated: bool = False
    next_number: int = 0


@lru_cache(maxsize=8192)
def latest_moment_ns(text: str) -> int:
    """The last nanosecond that a store's text for a time can mean: most leave out what is below a second, or write
    zeros for it. What counts days from it is never early.
    """
    fraction = text.partition(".")[2]
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    digits = digits if fraction[:digits].strip("0") else 0
    unit_ns: int = 10 ** max(9 - digits, 0)
    return round(_time(text) * 1_000_000) * 1000 // unit_ns * unit_ns + unit_ns - 1


def parse_version_page(body: bytes) -> VersionPage:
    root, entries = _entries(body)
    encoded, fields = _is_encoded(root), _fields(root)
    return VersionPage(
        versions=tuple(_version(kind, texts, encoded) for kind, texts in entries),
        prefixes=tuple(
            _decoded(_fields(node).get("Prefix", ""), encoded) for node in root if local_name(node) == "CommonPrefixes"
        ),
        is_truncated=fields.get("IsTruncated") == "true",
        next_key=_decoded(fields.get("NextKeyMarker", ""), encoded),
        next_version_id=fields.get("NextVersionIdMarker", ""),
    )


def parse_upload_page(body: bytes) -> UploadPage:
    root = _root(body, "ListMultipartUploadsResult")
    fields = _fields(root)
    return UploadPage(
        uploads=tuple(parse_uploads(body)),
        is_truncated=fields.get("IsTruncated") == "true",
        next_key=_decoded(fields.get("NextKeyMarker", ""), _is_encoded(root)),
        next_upload_id=fields.get("NextUploadIdMarker", ""),
    )


def parse_part_page(body: bytes) -> PartPage:
    root = _root(body, "ListPartsResult")
    entries = [_fields(node) for node in root if local_name(node) == "Part"]
    fields = _fields(root)
    return PartPage(
        parts=tuple(
            ListedPart(
                _number(part.get("PartNumber", "")), part.get("ETag", "").strip('"'), _number(part.get("Size", ""))
            )
            for part in entries
        ),
        is_truncated=fields.get("IsTruncated") == "true",
        next_number=_number(fields.get("NextPartNumberMarker") or "0"),
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Unavailable(f"the backend's listing has a number that is none: {text!r}")
    return int(text)


def _entries(body: bytes) -> tuple[Element, list[tuple[str, Groups]]]:
    """The root of a ListVersionsResult, and kind and texts of its entries in their order."""
    usual = usual_entries(body) if is_of_bearable_size(body, _MOST_TAGS) else None
    if usual is not None:
        entries, rest = usual
        root = _root(rest, "ListVersionsResult")
        if not any(local_name(node) in KINDS for node in root):
            return root, entries
    root = _root(body, "ListVersionsResult")
    nodes = [(local_name(node), _fields(node)) for node in root if local_name(node) in KINDS]
    return root, [(kind, tuple(fields.get(name, "") for name in FIELDS)) for kind, fields in nodes]


def _version(kind: str, texts: Groups, encoded: bool) -> ListedVersion:
    key, version_id, is_latest, modified, etag, size, storage_class = texts
    if size and not (size.isascii() and size.isdigit()):
        raise Unavailable(f"the backend's listing has a size that is none: {size!r}")
    return ListedVersion(
        _decoded(key, encoded),
        version_id,
        is_latest == "true",
        kind == "DeleteMarker",
        _time(modified),
        etag.strip('"'),
        int(size or 0),
        storage_class,
        modified,
    )


def parse_uploads(body: bytes) -> list[ListedUpload]:
    """Of a ListMultipartUploadsResult."""
    root = _root(body, "ListMultipartUploadsResult")
    encoded = _is_encoded(root)
    return [
        ListedUpload(
            key=_decoded(fields.get("Key", ""), encoded),
            upload_id=fields.get("UploadId", ""),
            initiated=_time(fields.get("Initiated", "")),
            started=fields.get("Initiated", ""),
        )
        for fields in (_fields(node) for node in root if local_name(node) == "Upload")
    ]


def _root(body: bytes, name: str) -> Element:
    root = backend_document(body, _MOST_TAGS)
    if local_name(root) != name:
        raise Unavailable(f"the backend answered a listing with {local_name(root)}")
    return root


def _is_encoded(root: Element) -> bool:
    return any(local_name(child) == "EncodingType" and (child.text or "") == "url" for child in root)


def _fields(node: Element) -> dict[str, str]:
    return {local_name(child): plain_text(child) for child in node if not len(child)}


def _decoded(text: str, encoded: bool) -> str:
    return unquote_plus(text) if encoded else text


@lru_cache(maxsize=8192)
def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Unavailable(f"the backend's listing has a time that is none: {text!r}") from None
