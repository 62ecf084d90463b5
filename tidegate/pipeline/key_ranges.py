"""Dividing a bucket's keys among readers, and reading one share exactly.

A bucket is divided by its folders where it has enough of them. A level with more keys than a page shows is divided into
ranges of keys. Where ranges begin and end is guessed, by looking at which characters names go on with; only how even
the shares are depends on it. That no key is lost or read twice follows from how a range is read: by `walk`, which
knows what it may believe of a store's order, from the one bound on, and without what lies outside of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidegate.core.listings import ListedVersion, VersionPage
from tidegate.ports import Store
from tidegate.walking import LARGEST_PAGE, hidden_folders, walk

_SLASH = "/"
# Of one level of names; what has more is cut less evenly.
_MOST_BRANCHES = 64
# After every name that goes on from here.
_PAST = "\U0010ffff" * 8


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys that begin with `prefix`, come after `after` and not after `until` ("": all that follow). No bound has
    a slash after the prefix, so that every folder lies on one side of it."""

    prefix: str
    after: str = ""
    until: str = ""

    def holds(self, name: str) -> bool:
        """Of a key, or of a folder of the prefix with all its keys."""
        return name.encode() > self.after.encode() and (not self.until or name.encode() <= self.until.encode())


@dataclass(frozen=True, slots=True)
class Share:
    """What one reader reads: ranges, and perhaps the keys of one level without its folders."""

    ranges: tuple[KeyRange, ...] = ()
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Whole keys with all their versions, and keys whose versions the store does not tell."""

    versions: list[ListedVersion]
    unresolved: list[str]


def read(store: Store, bucket: str, share: Share, *, limit: int = LARGEST_PAGE) -> Iterator[Found]:
    """By pages of at most `limit` entries."""
    if share.level is not None:
        yield from _level(store, bucket, share.level, limit)
    for key_range in share.ranges:
        yield from _range(store, bucket, key_range, limit)


def _range(store: Store, bucket: str, share: KeyRange, limit: int) -> Iterator[Found]:
    waiting = [(folder, "") for folder in hidden_folders(share.prefix, share.after) if share.holds(folder)]
    waiting.append((share.prefix, share.after))
    while waiting:
        prefix, marker = waiting.pop()
        # Only the prefix itself has keys outside of the range: of a folder, it has all keys or none.
        holds = share.holds if prefix == share.prefix else KeyRange(prefix).holds
        step = walk(store, bucket, prefix=prefix, marker=marker, limit=limit)
        if step.next_marker and holds(step.next_marker) and step.next_marker != share.until:
            waiting.append((prefix, step.next_marker))
        waiting += [(folder, "") for folder in step.folders if holds(folder)]
        yield Found(
            [version for key, versions in step.keys.items() if holds(key) for version in versions],
            [key for key in step.unresolved if holds(key)],
        )


def _level(store: Store, bucket: str, prefix: str, limit: int) -> Iterator[Found]:
    page = _look(store, bucket, prefix, limit)
    if not page.is_truncated:
        yield Found([version for version in page.versions if version.key.startswith(prefix)], [])
        return
    # It has grown since it was looked at: it is walked with its folders, which others read.
    for found in _range(store, bucket, KeyRange(prefix), limit):
        yield Found(
            [version for version in found.versions if _SLASH not in version.key[len(prefix) :]],
            [key for key in found.unresolved if _SLASH not in key[len(prefix) :]],
        )


# --- dividing ------------------------------------------------------------------------------------


def divide(store: Store, bucket: str, prefix: str, shares: int, *, limit: int = LARGEST_PAGE) -> list[Share]:
    """About as many shares as are asked for, or fewer where there is little to read."""
    if shares <= 1:
        return [Share((KeyRange(prefix),))]
    page = _look(store, bucket, prefix, limit)
    if page.is_truncated:
        return [Share((key_range,)) for key_range in _ranges(store, bucket, prefix, shares)]
    folders = page.prefixes
    if not folders:
        return [Share((KeyRange(prefix),))]
    level = [Share(level=prefix)] if page.versions else []
    if len(folders) > shares // 2:
        dealt = [folders[number::shares] for number in range(min(len(folders), shares))]
        return [*level, *(Share(tuple(KeyRange(folder) for folder in hand)) for hand in dealt)]
    each = shares // len(folders)
    return [*level, *(share for folder in folders for share in divide(store, bucket, folder, each, limit=limit))]


def _look(store: Store, bucket: str, prefix: str, limit: int) -> VersionPage:
    return store.list_versions(bucket, prefix=prefix, delimiter=_SLASH, limit=limit)


def _ranges(store: Store, bucket: str, prefix: str, shares: int) -> list[KeyRange]:
    """Between every so many of the names at which keys part."""
    bounds = _bounds(store, bucket, prefix, shares)
    stride = max(1, -(-(len(bounds) + 1) // shares))
    cuts = ["", *bounds[stride - 1 :: stride], ""]
    return [KeyRange(prefix, after, until) for after, until in pairwise(cuts)]


def _bounds(store: Store, bucket: str, prefix: str, shares: int) -> list[str]:
    """Names at which keys part, in their order; at least half as many as there are to be shares, if that can be."""
    branches, is_parted = [prefix], True
    while is_parted and len(branches) < shares // 2:
        parted = [_parted(store, bucket, prefix, branch) for branch in branches]
        is_parted = sum(map(len, parted)) > len(branches)
        branches = [branch for parts in parted for branch in parts]
    usable = {branch for branch in branches if branch != prefix and _SLASH not in branch[len(prefix) :]}
    return sorted(usable, key=str.encode)[1:]


def _parted(store: Store, bucket: str, prefix: str, branch: str) -> list[str]:
    """The branch up to where its names part, with each character that they go on with from there."""
    first = _next(store, bucket, branch, "")
    if not first or _SLASH in branch[len(prefix) :]:
        return [branch]
    shortest, longest = len(branch), len(first)
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if _next(store, bucket, branch, first[:middle] + _PAST):
            longest = middle - 1
        else:
            shortest = middle
    common, name = first[:shortest], first
    if _SLASH in common[len(prefix) :]:
        return [branch]
    parts: list[str] = []
    while name and len(parts) < _MOST_BRANCHES:
        part = name[: len(common) + 1]
        if parts and part.encode() <= parts[-1].encode():
            break
        parts.append(part)
        name = _next(store, bucket, common, part + _PAST if part != common else common)
    return parts


def _next(store: Store, bucket: str, prefix: str, marker: str) -> str:
    """Some key after the marker, mostly the first; "" if there is none. Good enough for a guess."""
    page = store.list_versions(bucket, prefix=prefix, key_marker=marker, limit=1)
    return next((version.key for version in page.versions if version.key.startswith(prefix)), "")
