"""Shares of a bucket's keys: together they hold every key once with all its versions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import VersionPage
from tidegate.pipeline.walk.key_ranges import KeyRange, divide, read

keys = st.text(alphabet="ab-./ z", min_size=1, max_size=6)
contents = st.dictionaries(keys, st.integers(1, 4), max_size=25)
prefixes = st.sampled_from(["", "a", "a/", "a-", "a."])
bounds = st.lists(st.text(alphabet="ab-./ z", min_size=1, max_size=4), max_size=5, unique=True)


def filled(contents: dict[str, int]) -> MemoryStore:
    store = MemoryStore(state=Versioning.ENABLED)
    for key, count in contents.items():
        for number in range(count):
            store.put(key, float(number))
    return store


def read_all(store: MemoryStore, shares: Iterable[KeyRange], limit: int) -> dict[str, list[str]]:
    """Every key with its version ids."""
    found: dict[str, list[str]] = {}
    for share in shares:
        for part in read(store, "bucket", share, limit=limit):
            whole: dict[str, list[str]] = {}
            for version in part:
                whole.setdefault(version.key, []).append(version.version_id)
            assert not found.keys() & whole.keys(), "a key was read twice"
            found |= whole
    return found


def truth(store: MemoryStore, prefix: str = "") -> dict[str, list[str]]:
    return {
        key: [version.version_id for version in versions]
        for key, versions in store.versions.items()
        if key.startswith(prefix)
    }


@given(contents=contents, cuts=bounds, prefix=prefixes, limit=st.integers(1, 6))
def test_ranges_hold_every_key_once_wherever_they_are_cut(
    contents: dict[str, int], cuts: list[str], prefix: str, limit: int
) -> None:
    store = filled(contents)
    at = ["", *sorted(prefix + cut for cut in cuts), ""]
    shares = [KeyRange(prefix, after, until) for after, until in pairwise(at)]
    assert read_all(store, shares, limit) == truth(store, prefix)


@given(contents=contents, prefix=prefixes, shares=st.integers(1, 9), limit=st.integers(1, 6))
def test_a_divided_bucket_holds_every_key_once(contents: dict[str, int], prefix: str, shares: int, limit: int) -> None:
    store = filled(contents)
    divided = divide(store, "bucket", prefix, shares, limit=limit)
    assert len(divided) <= shares
    assert read_all(store, divided, limit) == truth(store, prefix)


@pytest.mark.parametrize(
    "names",
    [
        [f"photo-{number:04}.jpg" for number in range(600)],
        [f"{folder}/{number:03}" for folder in ("one", "two") for number in range(300)],
        [f"customers/{number:04}/object" for number in range(600)],
        [
            f"{year}/{month:02}/{day:02}/log.gz"
            for year in range(2000, 2003)
            for month in range(1, 11)
            for day in range(20)
        ],
    ],
    ids=["beside each other", "in few folders", "in many folders", "in folders of folders"],
)
def test_a_bucket_is_divided_into_even_ranges_with_few_requests(names: list[str]) -> None:
    store = filled(dict.fromkeys([*names, "top"], 1))
    shares = divide(store, "bucket", "", 8, limit=50)
    assert len(store.requests) < 80
    counts = [len(read_all(store, [share], 50)) for share in shares]
    assert sum(counts) == 601
    assert len(counts) >= 4
    assert max(counts) <= 200


def test_names_that_others_go_on_from_do_not_stop_the_division() -> None:
    store = filled({"a": 1, "ab": 1} | {f"ab{number}": 1 for number in range(10)})
    shares = divide(store, "bucket", "", 10, limit=2)
    assert len(store.requests) < 40
    assert max(len(read_all(store, [share], 2)) for share in shares) <= 4


def watched(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[VersionPage]:
    """The pages that are listed from now on."""
    list_versions, pages = store.list_versions, []

    def listed(bucket: str, **asked: Any) -> VersionPage:
        pages.append(list_versions(bucket, **asked))
        return pages[-1]

    monkeypatch.setattr(store, "list_versions", listed)
    return pages


def test_of_many_folders_no_more_are_asked_for_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway looks into each folder that it shows."""
    store = filled({f"customer-{number:04}/{n}": 1 for number in range(1500) for n in range(2)})
    pages = watched(store, monkeypatch)
    shares = divide(store, "bucket", "", 8)
    assert sum(len(page.prefixes) for page in pages) <= 32
    assert max(len(read_all(store, [share], 1000)) for share in shares) <= 1000


def test_a_range_is_read_not_far_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled({f"{number:04}": 1 for number in range(3000)})
    pages = watched(store, monkeypatch)
    assert sorted(read_all(store, [KeyRange("", "1000", "1200")], 1000)) == [f"{n}" for n in range(1001, 1201)]
    assert sum(len(page.versions) for page in pages) < 500
    pages.clear()
    assert len(read_all(store, [KeyRange("", "0099")], 1000)) == 2900
    assert len(pages) == 3


def test_nothing_is_divided_where_one_page_shows_everything() -> None:
    store = filled({"a": 1, "b/1": 2, "c/1": 1})
    assert divide(store, "bucket", "", 8) == [KeyRange("")]
    assert len(store.requests) == 1
