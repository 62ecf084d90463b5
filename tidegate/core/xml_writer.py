"""Writing S3's XML: text made safe for XML 1.0, and the documents that Tidegate answers itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"

# A carriage return must be a reference, or every parser turns it into a newline. The other control characters,
# surrogates and U+FFFE/F cannot stand in XML 1.0 at all, not even as references.
_NO_XML = "\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"
_SPECIAL = re.compile(f'[&<>"\r{_NO_XML}]')
_IMPOSSIBLE = re.compile(f"[{_NO_XML}]")
_REPLACEMENTS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"}


def escape(text: str) -> str:
    """The text as XML content; characters that XML 1.0 cannot hold become U+FFFD."""
    return _SPECIAL.sub(lambda match: _REPLACEMENTS.get(match[0], "\ufffd"), text)


def can_hold(text: str) -> bool:
    """Whether XML 1.0 can hold every character of the text."""
    return not _IMPOSSIBLE.search(text)


def element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def iso_time(unix: float) -> str:
    """A time as S3's XML shows it: milliseconds, UTC."""
    moment = datetime.fromtimestamp(unix, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def list_buckets_xml(buckets: Iterable[tuple[str, float]], *, owner: str) -> bytes:
    """ListAllMyBucketsResult of (name, creation time) pairs, in the order given."""
    entries = "".join(
        f"<Bucket>{element('Name', name)}{element('CreationDate', iso_time(created))}</Bucket>"
        for name, created in buckets
    )
    holder = f"<Owner>{element('ID', owner)}{element('DisplayName', owner)}</Owner>"
    body = f'<ListAllMyBucketsResult xmlns="{NAMESPACE}">{holder}<Buckets>{entries}</Buckets></ListAllMyBucketsResult>'
    return (DECLARATION + body).encode()
