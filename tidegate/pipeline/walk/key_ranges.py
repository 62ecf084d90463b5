"""Dividing a bucket's keys among readers, and reading one share exactly.

A bucket with more versions than a page shows is divided into ranges of keys. Where ranges begin and end is guessed, by
looking at which characters names go on with; only how even the shares are depends on it. That no key is lost or read
twice follows from how a range is read: in S3's order, from the one bound on, and up to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidegate.core.listings import ListedVersion
from tidegate.core.ordered_listing import PAST
from tidegate.ports import Store
from tidegate.walking import LARGEST_PAGE, walk

# What has more of these is cut less evenly: parts of one beginning of names, and beginnings of beginnings.
_MOST_PARTS = 64
_MOST_ROUNDS = 16
# To list a folder, the gateway must look into it.
_MOST_FOLDERS = 32
# Names with fewer versions than this part of a page are not worth a share.
_LIGHT_PART = 10
# The part of a page that is read first where a range has an end.
_FIRST_PART = 8


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys that begin with `prefix`, come after `after` and not after `until` ("": all that follow)."""

    prefix: str
    after: str = ""
    until: str = ""


def read(store: Store, bucket: str, share: KeyRange, *, limit: int = LARGEST_PAGE) -> Iterator[list[ListedVersion]]:
    """Whole keys with all their versions, by pages of at most `limit` entries. Pages grow, so that a short range does
    not read much of the next one."""
    marker, size = share.after, limit if not share.until else max(limit // _FIRST_PART, 1)
    while True:
        stretch = walk(store, bucket, prefix=share.prefix, marker=marker, limit=size)
        keys = stretch.keys.items()
        yield [version for key, versions in keys if not share.until or key <= share.until for version in versions]
        marker, size = stretch.next_marker, min(2 * size, limit)
        if not marker or (share.until and marker >= share.until):
            return


def divide(store: Store, bucket: str, prefix: str, shares: int, *, limit: int = LARGEST_PAGE) -> list[KeyRange]:
    """About as many shares as are asked for, or fewer where there is little to read: one page is one share."""
    if shares <= 1 or not store.list_versions(bucket, prefix=prefix, limit=limit).is_truncated:
        return [KeyRange(prefix)]
    branches = _branches(store, bucket, prefix, shares, max(limit // _LIGHT_PART, 1))
    bounds: list[str] = []
    total, before = sum(branches.values()), 0.0
    for branch, weight in branches.items():
        if before >= total * (len(bounds) + 1) / shares:
            bounds.append(branch)
        before += weight
    return [KeyRange(prefix, after, until) for after, until in pairwise(["", *bounds, ""])]


def _branches(store: Store, bucket: str, prefix: str, shares: int, light: int) -> dict[str, float]:
    """Beginnings of names in their order, with guesses at how much begins so: where names part, each part is taken for
    as large as the others. Those that are larger than two shares are parted."""
    branches = {prefix: 1.0}
    for _ in range(_MOST_ROUNDS):
        most = 2 * sum(branches.values()) / shares
        if all(weight <= most for weight in branches.values()):
            break
        parted: dict[str, float] = {}
        for branch, weight in branches.items():
            parts = _parted(store, bucket, branch, light) if weight > most else []
            parted |= {part: weight / len(parts) for part in parts} or {branch: min(weight, most / 2)}
        branches = parted
    return branches


def _parted(store: Store, bucket: str, branch: str, light: int) -> list[str]:
    """The folders in which the names go on from the branch, if they are few, or the characters; nothing if no more than
    `light` versions begin so, or those of one key."""
    page = store.list_versions(bucket, prefix=branch, limit=light)
    if not page.is_truncated:
        return []
    if len({version.key[len(branch) :].partition("/")[0] for version in page.versions}) <= _MOST_FOLDERS:
        level = store.list_versions(bucket, prefix=branch, delimiter="/", limit=_MOST_FOLDERS)
        if level.prefixes and not level.is_truncated:
            return list(level.prefixes)
    first = page.versions[0].key
    shortest, longest = len(branch), len(first)
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if _next(store, bucket, branch, first[:middle] + PAST):
            longest = middle - 1
        else:
            shortest = middle
    common = first[:shortest]
    name = first if first != common else _next(store, bucket, common, common)
    parts: list[str] = []
    while name and len(parts) < _MOST_PARTS:
        parts.append(name[: len(common) + 1])
        name = _next(store, bucket, common, parts[-1] + PAST)
    return parts


def _next(store: Store, bucket: str, prefix: str, marker: str) -> str:
    """The first key after the marker; "" if there is none."""
    page = store.list_versions(bucket, prefix=prefix, key_marker=marker, limit=1)
    return page.versions[0].key if page.versions else ""
