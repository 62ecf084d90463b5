"""A site is listed in ranges of keys, each version once, whatever the order of its listing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.key_versions import directory_order
from tidegate.core.listings import ListedVersion, VersionPage
from tidegate.pipeline.replication.any_order import divide, read, versions_of
from tidegate.pipeline.walk import key_ranges

SEGMENT = st.text(st.sampled_from("ab-. !0é"), min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
KEYS = st.dictionaries(st.lists(SEGMENT, min_size=1, max_size=3).map("/".join), st.integers(1, 3), max_size=25)


class ListedStore:
    """Of a store, its listing of versions. One that `walks` keeps a key where its directory of versions stands, and
    sorts a page before it cuts it; the other one has S3's order."""

    def __init__(self, keys, *, walks):
        self.walks = walks
        self.rows = sorted(
            ((key, number) for key, count in keys.items() for number in range(count)),
            key=lambda row: (self._place(row[0]), row[1]),
        )

    def list_versions(
        self, bucket, *, prefix="", delimiter="", key_marker="", version_id_marker="", limit=1000
    ) -> VersionPage:
        marker = directory_order(key_marker) if self.walks else key_marker.encode()
        found = {}
        for key, number in self.rows:
            if not key.startswith(prefix) or not self._follows(key, number, marker, key_marker, version_id_marker):
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key[: end + len(delimiter)] if end >= 0 else ""
            found[name or (key, number)] = None
        names = list(found)[: limit + 1]
        if self.walks:
            names.sort(key=lambda name: (name if isinstance(name, str) else name[0]).encode())
        shown = names[:limit]
        versions = [_version(*name) for name in shown if not isinstance(name, str)]
        prefixes = tuple(name for name in shown if isinstance(name, str))
        is_more = len(names) > limit
        last = versions[-1] if versions and is_more else None
        return VersionPage(
            tuple(versions), prefixes, is_more, last.key if last else "", last.version_id if last else ""
        )

    def _follows(self, key, number, marker, key_marker, version_id_marker):
        if key == key_marker:
            return bool(version_id_marker) and number > int(version_id_marker.removeprefix("v"))
        return self._place(key) > marker and (not self.walks or not key_marker or key > key_marker)

    def _place(self, key):
        return directory_order(key, ".versions") if self.walks else key.encode()


def _version(key, number):
    return ListedVersion(key, f"v{number}", number == 0, False, 100.0 - number, "e", 1, "", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("walks", [False, True])
@given(keys=KEYS, shares=st.integers(1, 6))
def test_every_version_is_read_once_and_those_of_a_key_the_newest_first(walks, keys, shares):
    store = ListedStore(keys, walks=walks)
    with pytest.MonkeyPatch.context() as patched:
        # Few versions to a page, so that there is something to divide.
        patched.setattr(key_ranges.divide, "__kwdefaults__", {"limit": 4})
        ranges = divide(store, "b", shares)
    found = [each for part in ranges for each in read(store, "b", part, limit=4)]
    assert Counter((each.key, each.version_id) for each in found) == Counter(
        (key, f"v{number}") for key, count in keys.items() for number in range(count)
    )
    for key, count in keys.items():
        assert [each.version_id for each in found if each.key == key] == [f"v{number}" for number in range(count)]


@pytest.mark.parametrize("walks", [False, True])
def test_the_versions_of_one_key_are_found_beside_those_whose_names_go_on(walks):
    store = ListedStore({"a": 3, "a-1": 2, "a/1": 2, "b": 1}, walks=walks)
    assert [each.version_id for each in versions_of(store, "b", "a")] == ["v0", "v1", "v2"]
    assert versions_of(store, "b", "a/") == []
