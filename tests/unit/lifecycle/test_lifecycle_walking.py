"""Walking a bucket finds every key with all its versions, in whatever order the store lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from tidegate.core.lifecycle.subjects import Versioning
from tidegate.walking import versions_of, walk

ORDERS = pytest.mark.parametrize("by_directories", [False, True], ids=["as S3", "as SeaweedFS"])


def filled(keys: dict[str, int], *, by_directories: bool, skips_to_marker: bool = True) -> MemoryStore:
    store = MemoryStore(by_directories=by_directories, skips_to_marker=skips_to_marker, state=Versioning.ENABLED)
    for key, count in keys.items():
        # A key that ends in a slash is a folder to SeaweedFS, and has one version.
        for number in range(1 if key.endswith("/") else count):
            store.put(key, float(number))
    return store


def walked(store: MemoryStore, *, prefix: str = "", limit: int) -> tuple[dict[str, list[str]], set[str]]:
    """Every key that was found with its version ids, and the keys that could not be listed."""
    found: dict[str, list[str]] = {}
    unresolved: set[str] = set()
    waiting = [(prefix, "")]
    for _ in range(10_000):
        if not waiting:
            return found, unresolved
        at, marker = waiting.pop()
        stretch = walk(store, "bucket", prefix=at, marker=marker, limit=limit)
        for key, versions in stretch.keys.items():
            assert key not in found, f"{key!r} was found twice"
            found[key] = [version.version_id for version in versions]
        unresolved.update(stretch.unresolved)
        waiting += [(folder, "") for folder in stretch.folders]
        if stretch.next_marker:
            assert stretch.next_marker.encode() > marker.encode()
            waiting.append((at, stretch.next_marker))
    raise AssertionError("the walk does not end")


def truth(store: MemoryStore, prefix: str = "") -> dict[str, list[str]]:
    return {
        key: [version.version_id for version in versions]
        for key, versions in store.versions.items()
        if key.startswith(prefix)
    }


keys = st.text(alphabet="ab-./ z", min_size=1, max_size=6).filter(lambda key: "//" not in key and key[0] != "/")
contents = st.dictionaries(keys, st.integers(1, 4), max_size=25)


@given(
    contents=contents,
    limit=st.integers(1, 6),
    prefix=st.sampled_from(["", "a", "a/", "a-", "a."]),
    by_directories=st.booleans(),
    skips_to_marker=st.booleans(),
)
def test_a_key_is_found_whole_or_said_to_be_missing(
    contents: dict[str, int], limit: int, prefix: str, by_directories: bool, skips_to_marker: bool
) -> None:
    store = filled(contents, by_directories=by_directories, skips_to_marker=skips_to_marker)
    found, unresolved = walked(store, prefix=prefix, limit=limit)
    assert found == {key: ids for key, ids in truth(store, prefix).items() if key not in unresolved}


@ORDERS
def test_folders_and_names_that_sort_around_the_slash_are_all_found(by_directories: bool) -> None:
    names = ["k", "k-a", "k/a", "k/b", "k.x", "k-dir/1", "k0", "logs-old/1", "logs-old/2", "logs/1", "logs/2", "z"]
    store = filled(dict.fromkeys(names, 2), by_directories=by_directories)
    for limit in (8, 12, 100):
        assert walked(store, limit=limit)[0] == truth(store)


@ORDERS
def test_a_key_with_more_versions_than_a_page_is_found_whole(by_directories: bool) -> None:
    store = filled({"before": 1, "many": 25, "many/below": 2, "zz": 1}, by_directories=by_directories)
    assert walked(store, limit=4)[0] == truth(store)


@ORDERS
def test_many_small_folders_need_no_listing_each(by_directories: bool) -> None:
    store = filled({f"folder{number:03d}/object": 1 for number in range(300)}, by_directories=by_directories)
    assert walked(store, limit=100) == (truth(store), set())
    assert len(store.requests) < 12


@ORDERS
def test_one_large_folder_becomes_a_walk_of_its_own(by_directories: bool) -> None:
    names = [f"big/{number:03d}" for number in range(50)] + ["big-brother", "big", "zebra"]
    store = filled(dict.fromkeys(names, 1), by_directories=by_directories)
    stretch = walk(store, "bucket", prefix="", marker="", limit=10)
    assert (stretch.folders, stretch.next_marker) == (["big/"], "") or not by_directories
    assert walked(store, limit=10)[0] == truth(store)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_name_crowded_out_by_its_continuations_is_found_by_itself(count: int) -> None:
    names = {f"file-{number:02d}": 1 for number in range(30)}
    store = filled(names | ({"file": count} if count else {}), by_directories=True)
    assert walked(store, limit=10) == (truth(store), set())


def test_a_name_that_is_crowded_out_and_has_more_versions_than_a_page_is_told_and_left_alone() -> None:
    names = {"file": 11} | {f"file-{number:02d}": 1 for number in range(30)}
    store = filled(names, by_directories=True)
    found, unresolved = walked(store, limit=10)
    assert unresolved == {"file"}
    assert found == {key: ids for key, ids in truth(store).items() if key != "file"}


@ORDERS
def test_all_versions_of_one_key_are_found_beside_its_neighbours(by_directories: bool) -> None:
    store = filled({"k": 5, "k/1": 1, "k/2": 1, "k/3": 1, "k/4": 1, "kz": 3}, by_directories=by_directories)
    versions = versions_of(store, "bucket", "k", limit=3)
    assert versions is not None
    assert [version.version_id for version in versions] == truth(store)["k"]
    assert versions_of(store, "bucket", "k/", limit=3) == []


def test_the_current_version_comes_first_and_the_null_version_where_its_time_puts_it() -> None:
    store = MemoryStore(state=Versioning.ENABLED)
    store.put("k", 10.0)
    store.put("k", 20.0, version_id="null")
    store.put("k", 30.0)
    newest, null, oldest = store.versions["k"]
    store.versions["k"] = [oldest, newest, null]
    versions = versions_of(store, "bucket", "k")
    assert versions == [newest, null, oldest]
