"""Walking a bucket finds every key once, with all its versions, however small the pages are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from tidegate.core.errors import Unavailable
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import VersionPage
from tidegate.walking import stretches, versions_of, walk


def filled(keys: dict[str, int]) -> MemoryStore:
    store = MemoryStore(state=Versioning.ENABLED)
    for key, count in keys.items():
        for number in range(count):
            store.put(key, float(number))
    return store


def walked(store: MemoryStore, *, prefix: str = "", after: str = "", limit: int) -> dict[str, list[str]]:
    """Every key that was found with its version ids."""
    found: dict[str, list[str]] = {}
    for stretch in stretches(store, "bucket", prefix=prefix, after=after, limit=limit):
        for key, versions in stretch.keys.items():
            assert key not in found, f"{key!r} was found twice"
            found[key] = [version.version_id for version in versions]
    return found


def truth(store: MemoryStore, prefix: str = "", after: str = "") -> dict[str, list[str]]:
    return {
        key: [version.version_id for version in versions]
        for key, versions in store.versions.items()
        if key.startswith(prefix) and key > after
    }


keys = st.text(alphabet="ab-./ z", min_size=1, max_size=6)
contents = st.dictionaries(keys, st.integers(1, 4), max_size=25)


@given(
    contents=contents,
    limit=st.integers(1, 6),
    prefix=st.sampled_from(["", "a", "a/", "a-", "a."]),
    after=st.one_of(st.just(""), keys),
)
def test_every_key_is_found_whole_and_in_order(contents: dict[str, int], limit: int, prefix: str, after: str) -> None:
    store = filled(contents)
    found = walked(store, prefix=prefix, after=after, limit=limit)
    assert found == truth(store, prefix, after)
    assert list(found) == sorted(found)


@given(contents=contents, limit=st.integers(1, 6), key=keys)
def test_all_versions_of_one_key_are_found_beside_its_neighbours(
    contents: dict[str, int], limit: int, key: str
) -> None:
    store = filled(contents)
    versions = versions_of(store, "bucket", key, limit=limit)
    assert [version.version_id for version in versions] == truth(store).get(key, [])


def test_a_key_with_more_versions_than_a_page_is_found_whole() -> None:
    store = filled({"before": 1, "many": 25, "many/below": 2, "zz": 1})
    assert walked(store, limit=4) == truth(store)


def test_a_page_is_asked_for_once() -> None:
    store = filled({f"folder{number:03d}/object": 1 for number in range(300)})
    assert walked(store, limit=100) == truth(store)
    assert len(store.requests) == 4  # each page leaves its last key to the next


@dataclass
class Changing(MemoryStore):
    """Changes after each page, for as long as there are changes."""

    changes: list[Callable[[], object]] = field(default_factory=list)

    def list_versions(self, bucket: str, **asked: Any) -> VersionPage:
        page = super().list_versions(bucket, **asked)
        if self.changes:
            self.changes.pop(0)()
        return page


def test_the_versions_of_a_key_that_changes_between_its_pages_are_found_once() -> None:
    store = Changing(state=Versioning.ENABLED)
    kept = [store.put("k", float(number)) for number in range(9)]
    store.put("z", 1.0)
    marked = kept[-3]  # the last of the first page, from which the next goes on
    store.changes = [lambda: store.versions["k"].remove(next(v for v in store.versions["k"] if v[1] == marked[1]))]
    versions = walk(store, "bucket", prefix="", marker="", limit=3).keys["k"]
    assert [version.version_id for version in versions] == [version.version_id for version in reversed(kept)]


def test_a_listing_that_does_not_go_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled({"k": 5})
    stuck = replace(store.list_versions("bucket", limit=2), next_key="k", next_version_id="same")
    monkeypatch.setattr(store, "list_versions", lambda bucket, **asked: stuck)
    with pytest.raises(Unavailable, match="does not go on"):
        versions_of(store, "bucket", "k", limit=2)


def test_the_current_version_comes_first_and_the_null_version_where_its_time_puts_it() -> None:
    store = MemoryStore(state=Versioning.ENABLED)
    store.put("k", 10.0)
    store.put("k", 20.0, version_id="null")
    store.put("k", 30.0)
    newest, null, oldest = store.versions["k"]
    store.versions["k"] = [oldest, newest, null]
    versions = versions_of(store, "bucket", "k")
    assert versions == [newest, null, oldest]
