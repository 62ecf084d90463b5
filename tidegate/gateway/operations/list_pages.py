"""Asking a pool's store for the pages from which a listing in S3's order is made."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.key_versions import newest_first
from tidegate.core.list_requests import MOST_ENTRIES
from tidegate.core.listings import ListedVersion, parse_version_page
from tidegate.core.object_pages import ObjectPage, parse_object_page
from tidegate.core.ordered_listing import (
    FolderQuery,
    Found,
    KeyQuery,
    Listing,
    NamePage,
    PageQuery,
    Question,
    StoreOrder,
    current_objects,
    has_earlier_siblings,
    list_in_order,
)
from tidegate.core.placements import merged, of_version
from tidegate.gateway.changes.key_versions import key_versions
from tidegate.gateway.placements import records
from tidegate.gateway.requests.forwarding import read_bucket

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

_PARALLEL_LOOKS = 16
# Versions in which mostly one object is found.
_FEW = 8

Moved = Mapping[str, ListedVersion]


class StorePages(ABC):
    """One bucket's listing of one kind. Answers the questions of `core.ordered_listing`."""

    order: StoreOrder

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._gate = asyncio.Semaphore(_PARALLEL_LOOKS)

    def shown(self, listing: Listing) -> Listing:
        """What of a listing is to be seen."""
        return listing

    async def collect(
        self, listing: Listing, most: int, first: tuple[PageQuery, NamePage] | None = None
    ) -> list[Found]:
        """The next names of a listing, until they have so many entries. `first` is a page that is at hand already."""
        found: list[Found] = []
        answer: Any = None
        while most > 0:
            try:
                question = listing.send(answer)
            except StopIteration:
                break
            if isinstance(question, Found):
                found.append(question)
                most -= self.size(question)
                answer = None
            elif first is not None and question == first[0]:
                answer, first = first[1], None
            else:
                answer = await self._answer(_no_more_than_needed(question, most))
        return found

    def size(self, found: Found) -> int:
        """How many entries a name has."""
        return 1

    async def _answer(self, question: Question) -> Any:
        if isinstance(question, PageQuery):
            return await self.page(question)
        if isinstance(question, KeyQuery):
            return await self.entry(question.key)
        assert isinstance(question, FolderQuery)
        return await self.have_any(question.folders)

    async def have_any(self, folders: Sequence[str]) -> list[bool]:
        """For each folder whether anything in it is shown."""
        return await asyncio.gather(*map(self._looked_into, folders))

    async def _looked_into(self, folder: str) -> bool:
        async with self._gate:
            return await self._has_any(folder)

    async def _has_any(self, folder: str) -> bool:
        page = await self.page(PageQuery(folder, "", "", 1))
        return any(key.startswith(folder) for key in page.keys)

    async def have_earlier_siblings(self, folders: Sequence[str]) -> bool:
        """Whether any of them has."""
        answers = await asyncio.gather(*map(self._has_earlier_siblings, folders))
        return any(answers)

    async def _has_earlier_siblings(self, folder: str) -> bool:
        search = has_earlier_siblings(folder)
        answer: Any = None
        while True:
            try:
                answer = await self._answer(search.send(answer))
            except StopIteration as end:
                return bool(end.value)

    @abstractmethod
    async def page(self, query: PageQuery) -> NamePage: ...

    @abstractmethod
    async def entry(self, key: str) -> Any:
        """What is listed of the key; None if that is nothing."""

    async def has(self, key: str) -> bool:
        """Whether the key is shown."""
        return await self.entry(key) is not None


class ObjectPages(StorePages):
    """The objects of a bucket without versions. An entry is the XML that the store wrote for it."""

    order = StoreOrder(has_versions=False, cuts_sorted=False)

    def __init__(self, exchange: Exchange, *, is_encoded: bool, with_owner: bool) -> None:
        """Names and owners are shown as a client asked for them."""
        super().__init__(exchange)
        self._asked = {"list-type": "2"}
        if is_encoded:
            self._asked["encoding-type"] = "url"
        if with_owner:
            self._asked["fetch-owner"] = "true"

    async def page(self, query: PageQuery) -> NamePage:
        page = await self.object_page(query)
        return as_names(page, await self.moved(page))

    async def moved(self, page: ObjectPage) -> Moved:
        """Those of the page's keys whose objects were moved: their entries speak of stubs."""
        admission = self._exchange.admitted
        if not admission.has_placements or admission.bucket is None:
            return {}
        found = await records.of_keys(self._exchange.gateway, admission.bucket.uid, page.keys)
        current = {key: of_version(moved, "") for key, moved in found.items()}
        return {key: record.as_object() for key, record in current.items() if record is not None}

    async def object_page(self, query: PageQuery) -> ObjectPage:
        asked = {"prefix": query.prefix, "delimiter": query.delimiter, "start-after": query.marker}
        given = {name: value for name, value in asked.items() if value}
        body = await read_bucket(self._exchange, self._asked | given | {"max-keys": str(query.limit)})
        return parse_object_page(body)

    async def entry(self, key: str) -> Any:
        return (await self.page(PageQuery(key, "", "", 1))).keys.get(key)


def as_names(page: ObjectPage, moved: Moved) -> NamePage:
    return NamePage({**page.entries, **moved}, page.prefixes, page.is_truncated)


class VersionPages(StorePages):
    """An entry is the list of a key's versions, the newest first."""

    def size(self, found: Found) -> int:
        return len(found.entry) if found.entry is not None else 1

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self.order = StoreOrder(has_versions=exchange.admitted.has_versions, cuts_sorted=True)

    async def page(self, query: PageQuery) -> NamePage:
        asked = {"prefix": query.prefix, "delimiter": query.delimiter, "key-marker": query.marker}
        given = {name: value for name, value in asked.items() if value}
        fixed = {"versions": "", "encoding-type": "url", "max-keys": str(query.limit)}
        page = parse_version_page(await read_bucket(self._exchange, fixed | given))
        keys: dict[str, list[ListedVersion]] = {}
        for version in page.versions:
            keys.setdefault(version.key, []).append(version)
        in_order = {key: newest_first(versions) for key, versions in keys.items()}
        return NamePage(await self._with_moved(in_order), page.prefixes, page.is_truncated)

    async def _with_moved(self, keys: dict[str, list[ListedVersion]]) -> dict[str, list[ListedVersion]]:
        admission = self._exchange.admitted
        if not admission.has_placements or admission.bucket is None:
            return keys
        moved = await records.of_keys(self._exchange.gateway, admission.bucket.uid, keys)
        return {key: merged(versions, moved.get(key, ())) for key, versions in keys.items()}

    async def entry(self, key: str) -> list[ListedVersion] | None:
        admission = self._exchange.admitted
        return await key_versions(self._exchange.gateway, admission.pool, admission.bucket_name, key) or None


class CurrentPages(VersionPages):
    """The objects of a bucket with versions, told by its versions: of a key that has a null version beside others, the
    store's own listing of objects may show the null version, also where it was replaced or deleted."""

    def size(self, found: Found) -> int:
        return 1

    def shown(self, listing: Listing) -> Listing:
        return current_objects(listing)

    async def has(self, key: str) -> bool:
        versions = await self.entry(key)
        return versions is not None and not versions[0].is_marker

    async def _has_any(self, folder: str) -> bool:
        page = await self.page(PageQuery(folder, "", "", _FEW))
        newest = [versions[0] for key, versions in page.keys.items() if key.startswith(folder)]
        if any(version.is_latest and not version.is_marker for version in newest) or not page.is_truncated:
            return any(not version.is_marker for version in newest)
        listing = list_in_order(self.order, folder, limit=MOST_ENTRIES)
        return bool(await self.collect(self.shown(listing), 1))


def _no_more_than_needed(question: Question, entries: int) -> Question:
    """The last entry of a page is not certain, and one more tells whether anything follows."""
    if isinstance(question, PageQuery):
        return question._replace(limit=min(question.limit, entries + 2))
    return question


def object_pages(exchange: Exchange, *, is_encoded: bool = True, with_owner: bool = False) -> StorePages:
    """The listing that tells the current objects of the exchange's bucket."""
    if exchange.admitted.has_versions:
        return CurrentPages(exchange)
    return ObjectPages(exchange, is_encoded=is_encoded, with_owner=with_owner)
