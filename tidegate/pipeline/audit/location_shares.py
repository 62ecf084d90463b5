"""How a location is read in parallel: its keys in stretches, each of which one reader lists from end to end.

Data keys are PREFIX + POOL/BUCKET_UID/ and hex digits. Some stores list directories in an order of their own, so that
keys of two folders cannot be told apart by their order; within a folder they can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.ports import Store, StoredObject

_PAGE = 1000
_DIGITS = "0123456789abcdef"
# After every data key of a folder, and whatever else has letters and digits for a name.
_LAST = "~"


@dataclass(frozen=True, slots=True)
class KeyStretch:
    """The keys that begin with `prefix`, lie after `after`, and not after `until` (empty: up to the last)."""

    prefix: str
    after: str = ""
    until: str = ""


def divide(store: Store, bucket: str, prefix: str, shares: int) -> list[list[KeyStretch]]:
    """At most so many shares of a location, of about the same size as far as that can be known; a small one is not
    divided."""
    page = store.list_objects(bucket, prefix=prefix, limit=_PAGE)
    if len(page) < _PAGE:
        return [[KeyStretch(prefix)]]
    found = list(_folders(store, bucket, prefix, page))
    folders = [stretch for stretch in found if not stretch.until]
    cuts = min(-(-shares // max(len(folders), 1)), len(_DIGITS))
    stretches = [part for stretch in found for part in (_cut(stretch, cuts) if not stretch.until else [stretch])]
    return [group for start in range(shares) if (group := stretches[start::shares])]


def read(store: Store, bucket: str, stretch: KeyStretch) -> Iterator[list[StoredObject]]:
    """Page by page."""
    after, until = stretch.after, stretch.until.encode()
    while page := store.list_objects(bucket, prefix=stretch.prefix, start_after=after, limit=_PAGE):
        inside = [entry for entry in page if not until or entry.key.encode() <= until]
        yield inside
        if len(page) < _PAGE or len(inside) < len(page):
            return
        after = page[-1].key


def _folders(store: Store, bucket: str, prefix: str, page: Sequence[StoredObject]) -> Iterator[KeyStretch]:
    """Each folder once, and each key that lies in none, by itself. What lies in a large folder is passed over."""
    last = ""
    while page:
        for entry in page:
            folder = _folder_of(entry.key, prefix)
            if not folder:
                yield KeyStretch(entry.key, until=entry.key)
            elif folder != last:
                last = folder
                yield KeyStretch(folder)
        if len(page) < _PAGE:
            return
        key = page[-1].key
        after = last + _LAST if last and key.startswith(last) and key < last + _LAST else key
        page = store.list_objects(bucket, prefix=prefix, start_after=after, limit=_PAGE)


def _folder_of(key: str, prefix: str) -> str:
    """PREFIX + POOL/BUCKET_UID/ of a data key; empty for other keys."""
    parts = key.removeprefix(prefix).split("/", 2)
    return f"{prefix}{parts[0]}/{parts[1]}/" if len(parts) == 3 else ""


def _cut(folder: KeyStretch, count: int) -> list[KeyStretch]:
    bounds = [folder.prefix + _DIGITS[number * len(_DIGITS) // count] for number in range(1, count)]
    return [KeyStretch(folder.prefix, after, until) for after, until in zip(["", *bounds], [*bounds, ""], strict=True)]
