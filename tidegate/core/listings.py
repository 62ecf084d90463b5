"""Reading a backend's listings of versions and of open uploads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from tidegate.core.errors import Unavailable
from tidegate.core.xml import backend_document, local_name, plain_text

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
    root = _root(body, "ListVersionsResult")
    encoded, fields = _is_encoded(root), _fields(root)
    return VersionPage(
        versions=tuple(_versions(root, encoded)),
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


def parse_versions(body: bytes) -> list[ListedVersion]:
    """Of a ListVersionsResult, in its order."""
    root = _root(body, "ListVersionsResult")
    return _versions(root, _is_encoded(root))


def _versions(root: Element, encoded: bool) -> list[ListedVersion]:
    versions = []
    for node in root:
        kind = local_name(node)
        if kind not in ("Version", "DeleteMarker"):
            continue
        fields = _fields(node)
        versions.append(
            ListedVersion(
                key=_key(fields, encoded),
                version_id=fields.get("VersionId", ""),
                is_latest=fields.get("IsLatest") == "true",
                is_marker=kind == "DeleteMarker",
                last_modified=_time(fields.get("LastModified", "")),
                etag=fields.get("ETag", "").strip('"'),
                size=int(fields.get("Size") or 0),
                storage_class=fields.get("StorageClass", ""),
                modified=fields.get("LastModified", ""),
            )
        )
    return versions


def parse_uploads(body: bytes) -> list[ListedUpload]:
    """Of a ListMultipartUploadsResult."""
    root = _root(body, "ListMultipartUploadsResult")
    encoded = _is_encoded(root)
    return [
        ListedUpload(
            key=_key(fields, encoded),
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


def _key(fields: dict[str, str], encoded: bool) -> str:
    return _decoded(fields.get("Key", ""), encoded)


def _decoded(text: str, encoded: bool) -> str:
    return unquote_plus(text) if encoded else text


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Unavailable(f"the backend's listing has a time that is none: {text!r}") from None
