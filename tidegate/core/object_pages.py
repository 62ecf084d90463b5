"""Reading a backend's listing of current objects (ListObjectsV2): only what tells objects apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_plus

from tidegate.core.documents import backend_document, local_name
from tidegate.core.errors import Unavailable
from tidegate.core.identities import Identity, moment

# A thousand entries of a dozen elements, an owner's included.
_MOST_TAGS = 40_000


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """The objects by key, in the order of the listing."""

    objects: dict[str, Identity]
    is_truncated: bool


def parse_object_page(body: bytes) -> ObjectPage:
    root = backend_document(body, _MOST_TAGS)
    if local_name(root) != "ListBucketResult":
        raise Unavailable(f"the backend answered a listing with {local_name(root)}")
    space = root.tag[: -len("ListBucketResult")]
    names = tuple(space + name for name in ("Key", "ETag", "Size", "LastModified"))
    is_encoded = root.findtext(f"{space}EncodingType") == "url"
    objects: dict[str, Identity] = {}
    for node in root.iterfind(f"{space}Contents"):
        key, etag, size, modified = (node.findtext(name, "") for name in names)
        if size and not (size.isascii() and size.isdigit() and len(size) < 20):
            raise Unavailable(f"the backend's listing has a size that is none: {size!r}")
        found = Identity(etag.strip('"'), int(size or -1), moment(modified))
        objects[unquote_plus(key) if is_encoded else key] = found
    return ObjectPage(objects, root.findtext(f"{space}IsTruncated") == "true")
