"""Reading buckets by listings of limited size: whole keys with all their versions, and open uploads.

Pages come from the gateway, in S3's order: by the keys' bytes, each page going on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.errors import Unavailable
from tidegate.core.key_versions import newest_first
from tidegate.core.list_requests import MOST_ENTRIES
from tidegate.core.listings import ListedUpload, ListedVersion, UploadPage, VersionPage

# The gateway needs two entries more than it shows to know where a page ends. A store gives no more than so many, and
# would be asked twice for a larger page.
LARGEST_PAGE = MOST_ENTRIES - 2
# What XML shows in place of a character that it cannot hold: such a key cannot be named.
UNSHOWABLE = "\ufffd"


class Lister(Protocol):
    """The part of a `Store` that lists."""

    def list_versions(
        self, bucket: str, *, prefix: str, key_marker: str, version_id_marker: str, limit: int
    ) -> VersionPage: ...

    def list_uploads(
        self, bucket: str, *, prefix: str, key_marker: str, upload_id_marker: str, limit: int
    ) -> UploadPage: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one step found: whole keys in their order, and the marker to go on from ("": the end)."""

    keys: dict[str, list[ListedVersion]]
    next_marker: str = ""


def walk(store: Lister, bucket: str, *, prefix: str, marker: str, limit: int) -> Stretch:
    """One step through the keys that begin with `prefix` and come after `marker`.

    The versions of a truncated page's last key may go on in the next page. That key is left to the next step; if the
    page shows no other, it is read to its end.
    """
    keys: dict[str, dict[str, ListedVersion]] = {}
    at, is_truncated = (marker, ""), True
    while is_truncated and len(keys) < 2:
        page = store.list_versions(bucket, prefix=prefix, key_marker=at[0], version_id_marker=at[1], limit=limit)
        for version in page.versions:
            keys.setdefault(version.key, {})[version.version_id] = version
        following, is_truncated = (page.next_key, page.next_version_id), page.is_truncated
        if is_truncated and following == at:
            raise Unavailable(f"the listing of {bucket} does not go on from {at[0]!r}, and does not end")
        at = following
    if is_truncated:
        keys.popitem()
    whole = {key: newest_first(list(versions.values())) for key, versions in keys.items()}
    return Stretch(whole, next(reversed(whole)) if is_truncated else "")


def stretches(
    store: Lister, bucket: str, *, prefix: str, after: str = "", limit: int = LARGEST_PAGE
) -> Iterator[Stretch]:
    """All keys that begin with `prefix` and come after `after`, step by step."""
    marker, is_more = after, True
    while is_more:
        stretch = walk(store, bucket, prefix=prefix, marker=marker, limit=limit)
        marker, is_more = stretch.next_marker, bool(stretch.next_marker)
        yield stretch


def versions_of(store: Lister, bucket: str, key: str, *, limit: int = LARGEST_PAGE) -> list[ListedVersion]:
    """All versions of one key, the newest first. Of all keys that begin with it, the key itself is listed first."""
    return walk(store, bucket, prefix=key, marker="", limit=limit).keys.get(key, [])


def upload_pages(
    store: Lister, bucket: str, *, prefix: str, limit: int = LARGEST_PAGE
) -> Iterator[Sequence[ListedUpload]]:
    """All open uploads of the keys that begin with `prefix`, page by page."""
    key, upload_id, is_truncated = "", "", True
    while is_truncated:
        page = store.list_uploads(bucket, prefix=prefix, key_marker=key, upload_id_marker=upload_id, limit=limit)
        yield page.uploads
        # A store that says "more" and does not move on would be asked for ever.
        is_truncated = page.is_truncated and (page.next_key, page.next_upload_id) != (key, upload_id)
        key, upload_id = page.next_key, page.next_upload_id


def uploads_of(store: Lister, bucket: str, key: str) -> list[ListedUpload]:
    """All open uploads of one key."""
    pages = upload_pages(store, bucket, prefix=key)
    return [upload for page in pages for upload in page if upload.key == key]
