"""Shares of a bucket's keys: together they hold every key once with all its versions, in whatever order stores list."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.key_ranges import KeyRange, Share, divide, read

ORDERS = pytest.mark.parametrize("by_directories", [False, True], ids=["as S3", "as SeaweedFS"])

keys = st.text(alphabet="ab-./ z", min_size=1, max_size=6).filter(lambda key: "//" not in key and key[0] != "/")
contents = st.dictionaries(keys, st.integers(1, 4), max_size=25)
prefixes = st.sampled_from(["", "a", "a/", "a-", "a."])
bounds = st.lists(st.text(alphabet="ab-. z", min_size=1, max_size=4), max_size=5, unique=True)


def filled(contents: dict[str, int], *, by_directories: bool, skips_to_marker: bool = True) -> MemoryStore:
    store = MemoryStore(by_directories=by_directories, skips_to_marker=skips_to_marker, state=Versioning.ENABLED)
    for key, count in contents.items():
        # A key that ends in a slash is a folder to SeaweedFS, and has one version.
        for number in range(1 if key.endswith("/") else count):
            store.put(key, float(number))
    return store


def read_all(store: MemoryStore, shares: list[Share], limit: int) -> tuple[dict[str, list[str]], set[str]]:
    """Every key with its version ids, and the keys that could not be listed."""
    found: dict[str, list[str]] = {}
    unresolved: set[str] = set()
    for share in shares:
        for part in read(store, "bucket", share, limit=limit):
            whole: dict[str, list[str]] = {}
            for version in part.versions:
                whole.setdefault(version.key, []).append(version.version_id)
            assert not found.keys() & whole.keys(), "a key was read twice"
            found |= whole
            unresolved.update(part.unresolved)
    return found, unresolved


def truth(store: MemoryStore, prefix: str = "") -> dict[str, list[str]]:
    return {
        key: [version.version_id for version in versions]
        for key, versions in store.versions.items()
        if key.startswith(prefix)
    }


@given(
    contents=contents,
    cuts=bounds,
    prefix=prefixes,
    limit=st.integers(1, 6),
    by_directories=st.booleans(),
    skips_to_marker=st.booleans(),
)
def test_ranges_hold_every_key_once_wherever_they_are_cut(
    contents: dict[str, int], cuts: list[str], prefix: str, limit: int, by_directories: bool, skips_to_marker: bool
) -> None:
    store = filled(contents, by_directories=by_directories, skips_to_marker=skips_to_marker)
    at = ["", *sorted((prefix + cut for cut in cuts), key=str.encode), ""]
    shares = [Share((KeyRange(prefix, after, until),)) for after, until in pairwise(at)]
    found, unresolved = read_all(store, shares, limit)
    assert found == {key: ids for key, ids in truth(store, prefix).items() if key not in unresolved}


@given(
    contents=contents,
    prefix=prefixes,
    shares=st.integers(1, 9),
    limit=st.integers(1, 6),
    by_directories=st.booleans(),
)
def test_a_divided_bucket_holds_every_key_once(
    contents: dict[str, int], prefix: str, shares: int, limit: int, by_directories: bool
) -> None:
    store = filled(contents, by_directories=by_directories)
    found, unresolved = read_all(store, divide(store, "bucket", prefix, shares, limit=limit), limit)
    assert found == {key: ids for key, ids in truth(store, prefix).items() if key not in unresolved}


@ORDERS
def test_a_level_without_folders_is_divided_into_even_ranges_with_few_requests(by_directories: bool) -> None:
    store = filled({f"photo-{number:04}.jpg": 1 for number in range(600)}, by_directories=by_directories)
    shares = divide(store, "bucket", "", 8, limit=50)
    assert len(store.requests) < 80
    counts = [len(read_all(store, [share], 50)[0]) for share in shares]
    assert sum(counts) == 600
    assert len(counts) >= 6
    assert max(counts) <= 200


@ORDERS
def test_few_folders_are_divided_themselves_and_many_are_dealt_out(by_directories: bool) -> None:
    large = {f"one/{number:03}": 1 for number in range(100)} | {f"two/{number:03}": 1 for number in range(100)}
    store = filled(large | {"top": 1}, by_directories=by_directories)
    shares = divide(store, "bucket", "", 8, limit=20)
    assert len(shares) > 4
    assert read_all(store, shares, 20)[0] == truth(store)
    many = filled({f"{number:02}/object": 1 for number in range(40)}, by_directories=by_directories)
    shares = divide(many, "bucket", "", 8, limit=50)
    assert sorted(len(share.ranges) for share in shares) == [5] * 8
    assert len(many.requests) == 1


def test_a_level_that_grew_after_the_division_is_read_without_its_folders() -> None:
    store = filled({"a": 1, "f/1": 1, "g/1": 1}, by_directories=True)
    shares = divide(store, "bucket", "", 3, limit=5)
    for number in range(9):
        store.put(f"b{number}", 1.0)
    assert read_all(store, shares, 5)[0] == truth(store)


def test_nothing_is_divided_where_one_page_shows_everything() -> None:
    store = filled({"a": 1, "b": 2}, by_directories=True)
    assert divide(store, "bucket", "", 8) == [Share((KeyRange(""),))]
