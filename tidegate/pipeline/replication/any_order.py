"""The versions of a bucket in S3's order, from a store that may list in an order of its own: a site is any S3 store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tidegate.core.errors import Unavailable
from tidegate.core.key_versions import newest_first, search_versions
from tidegate.core.list_requests import MOST_ENTRIES
from tidegate.core.listings import ListedVersion
from tidegate.core.ordered_listing import Found, KeyQuery, NamePage, PageQuery, StoreOrder, list_in_order
from tidegate.pipeline.walk import key_ranges
from tidegate.pipeline.walk.key_ranges import KeyRange
from tidegate.ports import Store
from tidegate.walking import stretches

_ORDER = StoreOrder(has_versions=True, cuts_sorted=True)


def divide(store: Store, bucket: str, shares: int) -> list[KeyRange]:
    """About so many ranges of keys. Guesses at bounds come in the store's order."""
    guessed = key_ranges.divide(store, bucket, "", shares)
    bounds = sorted({part.after for part in guessed if part.after})
    return [KeyRange("", after, until) for after, until in pairwise(["", *bounds, ""])]


def read(store: Store, bucket: str, share: KeyRange, *, limit: int = MOST_ENTRIES) -> Iterator[ListedVersion]:
    """Whole keys with all their versions, the newest first."""
    last = share.after
    for key, versions in _keys_in_order(store, bucket, share, limit):
        if share.until and key > share.until:
            return
        if key <= last:
            raise Unavailable(f"bucket {bucket} is listed in an order that is not known: {key!r} comes after {last!r}")
        last = key
        yield from versions


def _keys_in_order(store: Store, bucket: str, share: KeyRange, limit: int) -> Iterator[tuple[str, list[ListedVersion]]]:
    """As from a store that walks directories. One that has S3's order shows what such a store cannot show, sooner or
    later, if it makes a difference; from there on it is listed as it is."""
    listing = list_in_order(_ORDER, share.prefix, after=share.after, limit=limit)
    answer: Any = None
    told = share.after
    while True:
        try:
            question = listing.send(answer)
        except StopIteration:
            return
        except Unavailable:  # of the listing's own: the store is asked below
            break
        answer = None
        if isinstance(question, Found):
            told = question.name
            yield told, question.entry
        elif isinstance(question, KeyQuery):
            answer = versions_of(store, bucket, question.key) or None
        else:
            assert isinstance(question, PageQuery)  # folders are asked for where names are rolled up
            answer = _page(store, bucket, question)
    for stretch in stretches(store, bucket, prefix=share.prefix, after=told, limit=limit):
        yield from stretch.keys.items()


def versions_of(store: Store, bucket: str, key: str) -> list[ListedVersion]:
    """All versions of one key, the newest first."""
    search = search_versions(key)
    try:
        query = next(search)
        while True:
            query = search.send(store.list_versions(bucket, **query._asdict()))
    except StopIteration as end:
        if end.value is None:
            raise Unavailable(f"the versions of {key!r} in {bucket} cannot be told from the store's listing") from None
        return list(end.value)


def _page(store: Store, bucket: str, query: PageQuery) -> NamePage:
    page = store.list_versions(bucket, prefix=query.prefix, key_marker=query.marker, limit=query.limit)
    keys: dict[str, list[ListedVersion]] = {}
    for version in page.versions:
        keys.setdefault(version.key, []).append(version)
    in_order = {key: newest_first(versions) for key, versions in keys.items()}
    return NamePage(in_order, page.prefixes, page.is_truncated)
