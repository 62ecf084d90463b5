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

from collections import Counter
from dataclasses import dataclass, field, replace

from tidegate.core.errors import Unavailable
from tidegate.core.listings import ListedVersion, VersionPage
from tidegate.ports import Store

LARGEST_PAGE = 1000
_SLASH = "/"
_VERSIONS = ".versions"
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
    delimiters = [""]
    while True:
        versions, crowd = _listed_alone(store, bucket, key, delimiters[-1], limit)
        if not crowd:
            return _newest_first(versions)
        # What takes the key's place goes on after it with some character: rolled up, it takes one place.
        fresh = [character for character, _ in crowd.most_common() if character not in delimiters]
        if not fresh:
            return _crowded_out(store, bucket, key, versions, limit)
        delimiters.append(fresh[0])


def _crowded_out(
    store: Store, bucket: str, key: str, seen: list[ListedVersion], limit: int
) -> list[ListedVersion] | None:
    """For the prefix `a.versions`, SeaweedFS lists the versions of `a` that lie there. Only the null version may lie
    elsewhere; it comes before what crowds the others out, and was seen."""
    page = store.list_versions(bucket, prefix=key + _VERSIONS, limit=limit)
    if page.is_truncated:
        return None
    found = {version.version_id: version for version in [*seen, *page.versions] if version.key == key}
    return _newest_first(list(found.values()))


def _listed_alone(
    store: Store, bucket: str, key: str, delimiter: str, limit: int
) -> tuple[list[ListedVersion], Counter[str]]:
    """The key's versions; and if that is not all, with which characters the names go on that take their places."""
    versions: list[ListedVersion] = []
    while True:
        page = store.list_versions(
            bucket,
            prefix=key,
            delimiter=delimiter,
            key_marker=key if versions else "",
            version_id_marker=versions[-1].version_id if versions else "",
            limit=limit,
        )
        more = [version for version in page.versions if version.key == key]
        others = [name for name in [*(version.key for version in page.versions), *page.prefixes] if name != key]
        versions += more
        if not page.is_truncated or any(_directory_order(name) > _directory_order(key, _VERSIONS) for name in others):
            return versions, Counter()
        if not more:
            return versions, Counter(name[len(key) : len(key) + 1] for name in others)


def _grouped(page: VersionPage) -> dict[str, list[ListedVersion]]:
    keys: dict[str, list[ListedVersion]] = {}
    for version in page.versions:
        keys.setdefault(version.key, []).append(version)
    return {key: _newest_first(group) for key, group in keys.items()}


def _newest_first(versions: list[ListedVersion]) -> list[ListedVersion]:
    """Some stores put the null version last, wherever it belongs."""
    if len(versions) == 1:
        return versions
    return sorted(versions, key=lambda version: (not version.is_latest, -version.last_modified))


def _directory_order(name: str, suffix: str = "") -> bytes:
    """By which directories are walked: what is in a folder comes right after the folder's own name."""
    if name.endswith(_SLASH):
        suffix = ""
    return (name.removesuffix(_SLASH).replace(_SLASH, "\0") + suffix).encode()
