"""Reading a backend's listings of versions and of open uploads."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from tidegate.core.errors import Unavailable
from tidegate.core.xml import backend_document, local_name, plain_text


class ListedVersion(NamedTuple):
    key: str
    version_id: str
    is_latest: bool
    is_marker: bool
    last_modified: float
    etag: str = ""
    size: int = 0
    storage_class: str = ""


class ListedUpload(NamedTuple):
    key: str
    upload_id: str
    initiated: float


def parse_versions(body: bytes) -> list[ListedVersion]:
    """Of a ListVersionsResult, in its order."""
    root = _root(body, "ListVersionsResult")
    encoded = _is_encoded(root)
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
            )
        )
    return versions


def parse_uploads(body: bytes) -> list[ListedUpload]:
    """Of a ListMultipartUploadsResult."""
    root = _root(body, "ListMultipartUploadsResult")
    encoded = _is_encoded(root)
    return [
        ListedUpload(_key(fields, encoded), fields.get("UploadId", ""), _time(fields.get("Initiated", "")))
        for fields in (_fields(node) for node in root if local_name(node) == "Upload")
    ]


def _root(body: bytes, name: str) -> Element:
    root = backend_document(body)
    if local_name(root) != name:
        raise Unavailable(f"the backend answered a listing with {local_name(root)}")
    return root


def _is_encoded(root: Element) -> bool:
    return any(local_name(child) == "EncodingType" and (child.text or "") == "url" for child in root)


def _fields(node: Element) -> dict[str, str]:
    return {local_name(child): plain_text(child) for child in node if not len(child)}


def _key(fields: dict[str, str], encoded: bool) -> str:
    key = fields.get("Key", "")
    return unquote_plus(key) if encoded else key


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Unavailable(f"the backend's listing has a time that is none: {text!r}") from None
