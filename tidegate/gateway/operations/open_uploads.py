"""The open uploads of a bucket, as its store lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidegate.core.errors import Unavailable
from tidegate.core.listings import ListedUpload, parse_upload_page

_MOST = 10_000  # of one page of the store


async def open_uploads(ask: Callable[[dict[str, str]], Awaitable[bytes]], prefix: str) -> list[ListedUpload]:
    """Those of the keys that begin with the prefix, in S3's order. Stores have orders of their own, and keep few enough
    uploads that all can be read. Names are asked for as they are: SeaweedFS says that it encodes them, and does not."""
    found: dict[str, ListedUpload] = {}
    markers: dict[str, str] = {}
    while True:
        page = parse_upload_page(await ask({"uploads": "", "prefix": prefix, "max-uploads": str(_MOST)} | markers))
        found |= {upload.upload_id: upload for upload in page.uploads if upload.key.startswith(prefix)}
        if not page.is_truncated:
            return sorted(found.values(), key=lambda upload: (upload.key, upload.initiated, upload.upload_id))
        # Not every store gives all the markers.
        following = {"key-marker": page.next_key, "upload-id-marker": page.next_upload_id}
        following = {name: value for name, value in following.items() if value}
        if following == markers:
            raise Unavailable("the backend's listing of uploads does not go on, and does not end")
        markers = following
