"""Names come in S3's order, each once, whatever order the store has."""

from __future__ import annotations

import pytest
from directory_store import PLAIN, DirectoryStore, names, position, rolled_up
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.core.errors import Unavailable
from tidegate.core.ordered_listing import (
    PAST,
    NamePage,
    PageQuery,
    StoreOrder,
    certain_if_alone,
    hidden_folders,
    list_in_order,
)

SEGMENT = st.text(st.sampled_from("ab-. !0,\u00e9\U0001f600"), min_size=1, max_size=3).filter(
    lambda text: text not in (".", "..")
)
KEY = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
KEYS = st.sets(KEY, min_size=1, max_size=25)
LIMIT = st.integers(2, 9)


def markers(data: st.DataObject, keys: set[str]) -> str:
    key = data.draw(st.sampled_from(sorted(keys)))
    return data.draw(st.sampled_from(["", key, key[:-1], key + "-", key + "\U0010ffff", key.rpartition("/")[0]]))


@given(st.data(), KEYS, LIMIT)
def test_keys_come_in_the_order_of_their_bytes(data: st.DataObject, keys: set[str], limit: int) -> None:
    prefix, after = data.draw(st.sampled_from(["", *(key[:1] for key in keys), *keys])), markers(data, keys)
    after = after if after.startswith(prefix) else ""
    found = names(DirectoryStore(keys), list_in_order(PLAIN, prefix, after=after, limit=limit))
    assert found == sorted(key for key in keys if key.startswith(prefix) and key > after)


@given(st.data(), KEYS, LIMIT, st.booleans())
@example(data=None, keys={"a-1", "a-2", "a-3", "a/x", "a"}, limit=2, cuts_sorted=True)
def test_versioned_keys_come_in_the_order_of_their_bytes(
    data: st.DataObject | None, keys: set[str], limit: int, cuts_sorted: bool
) -> None:
    order = StoreOrder(has_versions=True, cuts_sorted=cuts_sorted)
    versioned = keys if data is None else data.draw(st.sets(st.sampled_from(sorted(keys))))
    after = "" if data is None else markers(data, keys)
    found = names(DirectoryStore(keys, versioned, order=order), list_in_order(order, "", after=after, limit=limit))
    assert found == sorted(key for key in keys if key > after)


def test_a_folder_that_was_told_as_a_whole_is_not_told_again_after_a_folder_in_it() -> None:
    order, keys = StoreOrder(has_versions=True, cuts_sorted=True), {"0", "0/.-", "0/0", "0/0/0"}
    assert names(DirectoryStore(keys, order=order), list_in_order(order, "", limit=2)) == sorted(keys)


@given(st.data(), KEYS, LIMIT, st.sets(KEY.map(lambda key: key + "/"), max_size=5))
def test_folders_are_rolled_up_in_their_place_and_empty_ones_are_left_out(
    data: st.DataObject, keys: set[str], limit: int, ghosts: set[str]
) -> None:
    prefix = data.draw(st.sampled_from(["", *(key.rpartition("/")[0] + "/" for key in keys if "/" in key)]))
    after = data.draw(st.sampled_from(["", *rolled_up(keys, prefix, "")]))
    told = after + PAST if "/" in after[len(prefix) :] else after
    store = DirectoryStore(keys, ghosts=ghosts)
    found = names(store, list_in_order(PLAIN, prefix, after=told, limit=limit, rolled=True))
    assert found == [name for name in rolled_up(keys, prefix, "") if name > told]


@given(st.data(), KEYS, LIMIT)
def test_going_on_after_every_name_gives_each_name_once(data: st.DataObject, keys: set[str], limit: int) -> None:
    store, found = DirectoryStore(keys), [""]
    size = data.draw(st.integers(1, 4))
    while page := names(store, list_in_order(PLAIN, "", after=found[-1], limit=limit), most=size):
        found += page
    assert found[1:] == sorted(keys)


@given(st.data(), KEYS, st.integers(1, 8))
def test_a_page_that_is_certain_as_it_came_is_the_next_in_order(data: st.DataObject, keys: set[str], size: int) -> None:
    store, after = DirectoryStore(keys), markers(data, keys)
    page = store.page(PageQuery("", after, "", size + 1))
    listed = list(page.keys)
    folders = certain_if_alone("", after, listed, is_truncated=page.is_truncated)
    is_clean = not any(key.startswith(tuple(hidden_folders("", after))) for key in keys)
    if folders is None or not is_clean:
        return
    stems = [folder[:-1] for folder in folders]
    if any(key[: len(stem)] == stem and key[len(stem) :] and key[len(stem)] < "/" for key in keys for stem in stems):
        return
    shown = listed[:-1] if page.is_truncated else listed
    assert shown == [key for key in sorted(keys) if key > after][: len(shown)]


def test_a_flat_bucket_costs_one_page_at_a_time() -> None:
    store = DirectoryStore({f"key-{number:03}" for number in range(100)})
    assert len(names(store, list_in_order(PLAIN, "", after="key-020", limit=12, hidden=()), most=10)) == 10
    assert store.asked == [PageQuery("", "key-020", "", 12)]


def test_folders_without_siblings_are_entered_after_one_look_each() -> None:
    store = DirectoryStore({f"{folder}/{number:03}" for folder in "abc" for number in range(20)})
    found = names(store, list_in_order(PLAIN, "", limit=12), most=10)
    assert found == [f"a/{number:03}" for number in range(10)]
    assert store.asked == [PageQuery("", "", "", 12), PageQuery("a", "a\x01", "", 2)]


def test_siblings_that_s3_has_passed_are_jumped_over() -> None:
    store = DirectoryStore({"a/x", *(f"a-{number:04}" for number in range(1000)), "b"})
    assert names(store, list_in_order(PLAIN, "", after="a/x", limit=10)) == ["b"]
    assert len(store.asked) < 5


def test_a_listing_that_does_not_go_on_is_an_error_and_not_an_endless_one() -> None:
    listing = list_in_order(PLAIN, "", limit=2)
    answer = None
    with pytest.raises(Unavailable):
        for _ in range(100):
            question = listing.send(answer)
            answer = NamePage({"a": 1, "b": 2}, is_truncated=True) if isinstance(question, PageQuery) else None


def test_the_model_lists_in_the_order_of_directories() -> None:
    assert sorted(["a-b", "a/b", "a"], key=position) == ["a", "a/b", "a-b"]
