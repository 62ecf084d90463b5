"""Finding all versions of one key by listings, on stores that list in their own order: see `core.ordered_listing`.

The search is a generator that yields what to list and is sent the page, so that callers with and without an event loop
go the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import NamedTuple

from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.listings import ListedVersion, VersionPage

_SLASH = "/"
VERSIONS_FOLDER = ".versions"


class VersionQuery(NamedTuple):
    """What ListObjectVersions is to be asked for."""

    prefix: str
    delimiter: str = ""
    key_marker: str = ""
    version_id_marker: str = ""


VersionSearch = Generator[VersionQuery, VersionPage, list[ListedVersion] | None]


def search_versions(key: str) -> VersionSearch:
    """Returns all versions of the key, the newest first; None if the store's listings do not tell."""
    delimiters = [""]
    while True:
        versions, crowd = yield from _listed_alone(key, delimiters[-1])
        if not crowd:
            return newest_first(versions)
        # What takes the key's place goes on after it with some character: rolled up, it takes one place.
        fresh = [character for character, _ in crowd.most_common() if character not in delimiters]
        if not fresh:
            return (yield from _crowded_out(key, versions))
        delimiters.append(fresh[0])


def _crowded_out(key: str, seen: list[ListedVersion]) -> VersionSearch:
    """For the prefix `a.versions`, SeaweedFS lists the versions of `a` that lie there. Only the null version may lie
    elsewhere; it comes before what crowds the others out, and was seen."""
    page = yield VersionQuery(key + VERSIONS_FOLDER)
    if page.is_truncated:
        return None
    found = {version.version_id: version for version in [*seen, *page.versions] if version.key == key}
    return newest_first(list(found.values()))


def _listed_alone(
    key: str, delimiter: str
) -> Generator[VersionQuery, VersionPage, tuple[list[ListedVersion], Counter[str]]]:
    """The key's versions; and if that is not all, with which characters the names go on that take their places."""
    versions: dict[str, ListedVersion] = {}
    query = VersionQuery(key, delimiter)
    while True:
        page = yield query
        more = [version for version in page.versions if version.key == key]
        if page.is_truncated and more and all(version.version_id in versions for version in more):
            raise Unavailable(f"the store's listing of the versions of {key} does not go on, and does not end")
        others = [name for name in [*(version.key for version in page.versions), *page.prefixes] if name != key]
        versions |= {version.version_id: version for version in more}
        is_passed = any(directory_order(name) > directory_order(key, VERSIONS_FOLDER) for name in others)
        if not page.is_truncated or is_passed:
            return list(versions.values()), Counter()
        if not more:
            return list(versions.values()), Counter(name[len(key) : len(key) + 1] for name in others)
        query = VersionQuery(key, delimiter, key, more[-1].version_id)


def newest_first(versions: list[ListedVersion]) -> list[ListedVersion]:
    """Some stores put the null version last, wherever it belongs."""
    if len(versions) == 1:
        return versions
    return sorted(versions, key=lambda version: (not version.is_latest, -version.last_modified))


def directory_order(name: str, suffix: str = "") -> bytes:
    """By which directories are walked: what is in a folder comes right after the folder's own name."""
    if name.endswith(_SLASH):
        suffix = ""
    return (name.removesuffix(_SLASH).replace(_SLASH, "\0") + suffix).encode()


def would_uncover(version_id: str, stored: Sequence[ListedVersion]) -> bool:
    """Whether the store would take another version for the current one if this one were deleted: SeaweedFS takes the
    newest that has an id, although the null version is."""
    if version_id == NULL_VERSION or not any(each.is_latest and each.version_id == NULL_VERSION for each in stored):
        return False
    return any(each.version_id not in (version_id, NULL_VERSION) for each in stored)
