"""The client: it lists a whole bucket over one connection and looks for nothing in a page but where to go on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from bench.gateway.requests import Target
from bench.store_content import Session

_TOKEN = re.compile(rb"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_FOLDER = re.compile(rb"<CommonPrefixes><Prefix>([^<]*)</Prefix></CommonPrefixes>")


@dataclass(slots=True)
class Listed:
    keys: int = 0
    pages: int = 0


def list_flat(target: Target, bucket: str) -> Listed:
    """ListObjectsV2 with pages of 1000, over all folders."""
    found = Listed()
    _list(Session(target), bucket, "", found)
    return found


def list_folders(target: Target, bucket: str) -> Listed:
    """With the delimiter `/`, folder by folder, as a file browser or a synchronising client does."""
    session, found, folders = Session(target), Listed(), [""]
    while folders:
        folders += _list(session, bucket, f"&prefix={quote(folders.pop(), safe='')}", found, "delimiter=%2F&")
    return found


def _list(session: Session, bucket: str, prefix: str, found: Listed, delimiter: str = "") -> list[str]:
    """All pages of one listing; the folders in it."""
    folders: list[str] = []
    token = ""
    while True:
        page = session.get(f"/{bucket}?{token}{delimiter}list-type=2&max-keys=1000{prefix}")
        found.pages += 1
        found.keys += page.count(b"<Key>")
        folders += [unquote(name.decode()) for name in _FOLDER.findall(page)] if delimiter else []
        following = _TOKEN.search(page)
        if following is None:
            return folders
        token = f"continuation-token={quote(following[1].decode(), safe='')}&"
