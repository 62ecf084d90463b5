"""What S3 answers to listings, worked out from what is stored: plain, slow and by the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Query:
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    limit: int = 1000


def listed(keys: Iterable[str], query: Query) -> tuple[list[str], list[str], bool]:
    """Keys and common prefixes of one page, and whether it is truncated."""
    names: dict[str, bool] = {}
    for key in sorted(keys, key=str.encode):
        if not key.startswith(query.prefix) or key.encode() <= query.after.encode():
            continue
        end = key.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
        name = key if end < 0 else key[: end + len(query.delimiter)]
        if end < 0 or name != query.after:
            names[name] = end >= 0
    shown = list(names)[: query.limit]
    return [name for name in shown if not names[name]], [name for name in shown if names[name]], len(names) > len(shown)


def pages(
    ask: Callable[..., dict[str, Any]], entries: Callable[[dict[str, Any]], list[Any]], **query: Any
) -> list[Any]:
    """All pages of a listing, by the markers that the pages give."""
    found: list[Any] = []
    markers: dict[str, str] = {}
    for _ in range(500):
        page = ask(**query, **markers)
        found += entries(page)
        if not page["IsTruncated"]:
            return found
        markers = _next(page)
    raise AssertionError("the listing does not end")


def _next(page: dict[str, Any]) -> dict[str, str]:
    names = {
        "NextContinuationToken": "ContinuationToken",
        "NextKeyMarker": "KeyMarker",
        "NextVersionIdMarker": "VersionIdMarker",
        "NextUploadIdMarker": "UploadIdMarker",
        "NextMarker": "Marker",
    }
    given = {given: page[name] for name, given in names.items() if page.get(name)}
    return given or {"Marker": page["Contents"][-1]["Key"]}
