"""A location is divided so that every key is read once, whatever the order of the store's listing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.pipeline.audit import location_shares
from tidegate.pipeline.audit.location_shares import divide, read
from tidegate.ports import StoredObject


def in_s3_order(key):
    return key.encode()


def in_order_of_directories(key):
    """As a store that walks directories lists."""
    return [part.encode() for part in key.split("/")]


class ListedStore:
    """Of a store, its listing."""

    def __init__(self, keys, order):
        self.keys, self.order, self.requests = sorted(keys, key=order), order, 0

    def list_objects(self, bucket, *, prefix="", start_after="", limit=1000):
        self.requests += 1
        after = self.order(start_after)
        found = [key for key in self.keys if key.startswith(prefix) and (not start_after or self.order(key) > after)]
        return [StoredObject(key, 1, "e", 1.0) for key in found[:limit]]


folders = st.builds(lambda pool, uid: f"{pool}/{uid}/", st.sampled_from(["a", "a-b", "b", "a.c"]), st.integers(0, 3))
names = st.text("0123456789abcdef", min_size=3, max_size=3)
data_keys = st.builds(lambda folder, name: f"data/{folder}{name}", folders, names)
strays = st.sampled_from(["data/stray", "data/a/stray", "data/zzz", "data/-"])


@pytest.mark.parametrize("order", [in_s3_order, in_order_of_directories])
@settings(max_examples=200, deadline=None)
@given(keys=st.sets(data_keys | strays, max_size=60), shares=st.integers(1, 20), page=st.integers(2, 9))
def test_every_key_is_read_once(order, keys, shares, page):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(location_shares, "_PAGE", page)
        store = ListedStore({*keys, "elsewhere/a/1/00"}, order)
        divided = divide(store, "b", "data/", shares)
        assert len(divided) <= shares
        stretches = [stretch for share in divided for stretch in share]
        found = Counter(entry.key for stretch in stretches for part in read(store, "b", stretch) for entry in part)
    assert found == Counter(keys)


def test_a_large_folder_is_passed_over_when_folders_are_looked_for_and_cut_by_digits():
    keys = [f"pool/uid/{number:04x}" for number in range(0, 0x10000, 8)]
    store = ListedStore([*keys, "pool/zzz/00"], in_s3_order)
    divided = divide(store, "b", "", 8)
    assert store.requests == 2
    assert len(divided) == 8
    parts = [stretch for share in divided for stretch in share if stretch.prefix == "pool/uid/"]
    assert [(part.after[-1:], part.until[-1:]) for part in sorted(parts, key=lambda part: part.after)] == [
        ("", "4"),
        ("4", "8"),
        ("8", "c"),
        ("c", ""),
    ]
