"""Finding all versions of every key of a bucket by listings of limited size, on stores that list in their own order.

S3 lists keys in the order of their bytes, and a page ends where the next begins. SeaweedFS does not: it collects
entries in the order of its directories, where the versions of `a` lie in `a.versions`, until it has one more than a
page, and only then sorts by key. A truncated page may thus lack smaller keys than the last it shows (`a` comes after
`a-1`, `a-b` after `a/c`), and the versions it shows of one key may not be all. And going on from a marker, it begins in
each directory at the marker's part, and so leaves out folders whose keys come later (`a/c` after the marker `a-1`).
Judged by what such pages show, a delete marker would look like the only version of its key.

So only what is certain in either order is taken from a page:

- A page that is not truncated is complete, except for the folders that its marker hides. Those become walks of their
  own as soon as a marker hides them, and are from then on left out, whether they are shown or not.
- In a truncated page, let `end` be the greatest first component (up to a slash after the prefix) that it shows. The
  two orders differ below `end` only in keys that `end` continues with a character before the slash (`a` for `a-1`).
  All other keys below `end` are there, with all their versions; those few are asked for by themselves.
- If nothing is below `end`, the page is filled by one folder. Listed with a delimiter the folder takes one place, and
  becomes a walk of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.errors import Unavailable
from tidegate.core.key_versions import newest_first, search_versions
from tidegate.core.listings import ListedUpload, ListedVersion, VersionPage
from tidegate.ports import Store

LARGEST_PAGE = 1000
_SLASH = "/"
# After every key of a folder, whatever follows its slash.
_PAST = "\U0010ffff" * 8


@dataclass(slots=True)
class Stretch:
    """What one step found: whole keys, folders to walk by themselves, and the marker to go on from ("": the end).

    `unresolved` are keys that may exist and whose versions the store's listings do not tell.
    """

    keys: dict[str, list[ListedVersion]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    next_marker: str = ""
    unresolved: list[str] = field(default_factory=list)


def walk(store: Store, bucket: str, *, prefix: str, marker: str, limit: int) -> Stretch:
    """One step through the keys that begin with `prefix` and come after `marker`, which an earlier step gave."""
    while True:
        step = _Step(store, bucket, prefix, marker, limit)
        flat = step.page(delimiter="")
        if not flat.is_truncated:
            return step.whole_part(flat)
        stretch = step.certain_part(flat)
        if stretch is not None:
            return stretch
        rolled = step.page(delimiter=_SLASH)
        if not rolled.is_truncated:
            return step.whole_part(rolled)
        stretch = step.certain_part(rolled) or step.first_key(rolled)
        if stretch is not None:
            return stretch
        if limit >= LARGEST_PAGE:
            raise Unavailable(f"the folders below {prefix!r} after {marker!r} cannot be listed in a reliable order")
        limit = min(2 * limit, LARGEST_PAGE)


@dataclass(frozen=True, slots=True)
class _Step:
    store: Store
    bucket: str
    prefix: str
    marker: str
    limit: int

    def page(self, *, delimiter: str) -> VersionPage:
        """Without what does not belong there: for the prefix `a.`, SeaweedFS also lists `a`, from `a.versions`."""
        page = self.store.list_versions(
            self.bucket, prefix=self.prefix, delimiter=delimiter, key_marker=self.marker, limit=self.limit
        )
        return replace(
            page, versions=tuple(version for version in page.versions if version.key.startswith(self.prefix))
        )

    def whole_part(self, page: VersionPage) -> Stretch:
        """What a page tells that is not truncated."""
        return self._without_hidden(Stretch(_grouped(page), list(page.prefixes)))

    def certain_part(self, page: VersionPage) -> Stretch | None:
        """What a truncated page tells for certain; None if that is nothing."""
        keys = _grouped(page)
        components = [_component(self.prefix, name) for name in [*keys, *page.prefixes]]
        end = max(components, key=str.encode, default="")
        stretch = Stretch(
            keys={key: versions for key, versions in keys.items() if key.encode() < end.encode()},
            folders=[folder for folder in page.prefixes if folder.encode() < end.encode()],
        )
        if not stretch.keys and not stretch.folders:
            return None
        handled = [*stretch.keys, *(folder + _PAST for folder in stretch.folders)]
        handled += self._ask_for_continued(end, stretch)
        return self._gone_on(stretch, max(handled, key=str.encode))

    def first_key(self, page: VersionPage) -> Stretch | None:
        """For a page filled by the versions of one key: all of them; None where that is not so."""
        names = [*(version.key for version in page.versions), *page.prefixes]
        first = min(names, key=str.encode, default="")
        if not first or first in page.prefixes:
            return None
        stretch = Stretch()
        self._ask_for_continued(first, stretch)
        self._ask_for(first, stretch)
        return self._gone_on(stretch, first)

    def _gone_on(self, stretch: Stretch, marker: str) -> Stretch:
        """With the marker to go on from, and the folders that it comes to hide."""
        stretch = self._without_hidden(stretch)
        stretch.next_marker = marker
        before = set(hidden_folders(self.prefix, self.marker))
        stretch.folders += [folder for folder in hidden_folders(self.prefix, marker) if folder not in before]
        return stretch

    def _without_hidden(self, stretch: Stretch) -> Stretch:
        hidden = tuple(hidden_folders(self.prefix, self.marker))
        stretch.keys = {key: found for key, found in stretch.keys.items() if not key.startswith(hidden)}
        stretch.folders = [folder for folder in stretch.folders if not folder.startswith(hidden)]
        return stretch

    def _ask_for_continued(self, end: str, stretch: Stretch) -> list[str]:
        asked = [key for key in _continued(self.prefix, end) if key.encode() > self.marker.encode()]
        for key in asked:
            self._ask_for(key, stretch)
        return asked

    def _ask_for(self, key: str, stretch: Stretch) -> None:
        stretch.keys.pop(key, None)
        versions = versions_of(self.store, self.bucket, key, limit=self.limit)
        if versions is None:
            stretch.unresolved.append(key)
        elif versions:
            stretch.keys[key] = versions


def hidden_folders(prefix: str, marker: str) -> list[str]:
    """The folders after a marker that a store does not enter which begins at the marker's first component. They must be
    walked by themselves by whoever goes on, or begins, at the marker."""
    folders = [key + _SLASH for key in _continued(prefix, _component(prefix, marker))]
    return [folder for folder in folders if folder.encode() > marker.encode()]


def _component(prefix: str, name: str) -> str:
    """The name up to the first slash after the prefix."""
    slash = name.find(_SLASH, len(prefix))
    return name if slash < 0 else name[:slash]


def _continued(prefix: str, end: str) -> list[str]:
    """What `end` continues with a character that sorts before the slash."""
    return [
        end[:position]
        for position in range(max(len(prefix), 1), len(end))
        if end[position] < _SLASH and end[position - 1] != _SLASH
    ]


def versions_of(store: Store, bucket: str, key: str, *, limit: int = LARGEST_PAGE) -> list[ListedVersion] | None:
    """All versions of one key, the newest first; None if the store's listings do not tell."""
    search = search_versions(key)
    try:
        query = next(search)
        while True:
            query = search.send(store.list_versions(bucket, **query._asdict(), limit=limit))
    except StopIteration as end:
        found: list[ListedVersion] | None = end.value
        return found


def upload_pages(
    store: Store, bucket: str, *, prefix: str, limit: int = LARGEST_PAGE
) -> Iterator[Sequence[ListedUpload]]:
    """All open uploads of the keys that begin with `prefix`, page by page."""
    key, upload_id, is_truncated = "", "", True
    while is_truncated:
        page = store.list_uploads(bucket, prefix=prefix, key_marker=key, upload_id_marker=upload_id, limit=limit)
        yield page.uploads
        # A store that says "more" and does not move on would be asked for ever.
        is_truncated = page.is_truncated and (page.next_key, page.next_upload_id) != (key, upload_id)
        key, upload_id = page.next_key, page.next_upload_id


def uploads_of(store: Store, bucket: str, key: str) -> list[ListedUpload]:
    """All open uploads of one key."""
    pages = upload_pages(store, bucket, prefix=key)
    return [upload for page in pages for upload in page if upload.key == key]


def _grouped(page: VersionPage) -> dict[str, list[ListedVersion]]:
    keys: dict[str, list[ListedVersion]] = {}
    for version in page.versions:
        keys.setdefault(version.key, []).append(version)
    return {key: newest_first(group) for key, group in keys.items()}
