"""Whether the objects that a delete names are still those that its sender saw.

Called while the keys are locked, so that no write through any gateway comes between the look and the delete. Asking for
objects one by one costs a store thirty times as much as listing them: where keys lie close together, they are listed.
A listing may only confirm. Some stores leave keys out of it, or show other ETags in it than they compare; so whatever
it does not confirm is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.identities import Identity, holds, moment, needs_look
from tidegate.core.object_pages import ObjectPage, identity_of, parse_object_page
from tidegate.core.xml import DeleteEntry
from tidegate.gateway.changes.key_versions import ListingsDoNotTell, key_versions
from tidegate.gateway.operations.stored_objects import Shown, stat
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

_PARALLEL_LOOKS = 16
_PAGE = 1000
# So many listed entries cost a store as much as one object that is asked for.
_LISTED_PER_LOOK = 30
# Strangers that may lie between neighbours.
_SLACK = 8
# Fewer keys than this are not worth a listing.
_FEWEST_TO_LIST = 8


async def unchanged(
    gateway: Gateway, view: PoolView, bucket: str, entries: Sequence[DeleteEntry], *, compares_etags: bool = False
) -> list[bool]:
    """For each entry whether what it names is true of the stored object. Entries that name nothing are not looked at,
    and those with an ETag alone are left to the store, unless it `compares_etags`. Of a noncurrent version its key is
    looked at, too."""
    in_question = [entry for entry in entries if needs_look(entry) or (compares_etags and entry.etag is not None)]
    listed = await _listed(gateway, view, bucket, [entry for entry in in_question if not entry.version_id])
    gate = asyncio.Semaphore(_PARALLEL_LOOKS)

    async def is_same(entry: DeleteEntry) -> bool:
        async with gate:
            found = await stat(gateway, view, bucket, entry.key, entry.version_id)
        return found is not None and holds(entry, identity(found))

    asked = [entry for entry in in_question if entry not in listed]
    verdicts = dict(zip(asked, await asyncio.gather(*map(is_same, asked)), strict=True))
    noncurrent = await _noncurrent(gateway, view, bucket, [entry for entry in entries if entry.noncurrent], gate)
    return [verdicts.get(entry, True) and (not entry.noncurrent or entry in noncurrent) for entry in entries]


async def _noncurrent(
    gateway: Gateway, view: PoolView, bucket: str, entries: Sequence[DeleteEntry], gate: asyncio.Semaphore
) -> set[DeleteEntry]:
    """Those that are not the current versions of their keys, as they are once whatever came after them is removed."""

    async def is_meant(entry: DeleteEntry) -> bool:
        async with gate:
            return await is_noncurrent(gateway, view, bucket, entry.key, entry.version_id)

    verdicts = await asyncio.gather(*map(is_meant, entries))
    return {entry for entry, is_so in zip(entries, verdicts, strict=True) if is_so}


async def is_noncurrent(gateway: Gateway, view: PoolView, bucket: str, key: str, version_id: str) -> bool:
    """Whether the version, be it an object or a delete marker, is certainly not the current one of its key.

    Stores show a current object by HEAD, but not which marker is the current one: then the key's versions are listed.
    Where there are none, nothing can come to light.
    """
    current = await stat(gateway, view, bucket, key)
    if current is not None:
        shown = current.get(b"x-amz-version-id", b"").decode("latin-1") or NULL_VERSION
        return shown != version_id
    try:
        versions = await key_versions(gateway, view, bucket, key)
    except ListingsDoNotTell:
        return False
    latest = {version.version_id for version in versions if version.is_latest}
    return not versions or (len(latest) == 1 and version_id not in latest)


def identity(headers: Shown) -> Identity:
    return Identity(
        etag=headers.get(b"etag", b"").decode("latin-1").strip('"'),
        size=int(headers.get(b"content-length", b"-1")),
        modified=moment(headers.get(b"last-modified", b"").decode("latin-1")),
    )


async def _listed(gateway: Gateway, view: PoolView, bucket: str, entries: Sequence[DeleteEntry]) -> set[DeleteEntry]:
    """The entries that listings confirm, page by page for as long as a page is worth its price."""
    confirmed: set[DeleteEntry] = set()
    left = sorted(entries, key=_order)
    after = ""
    listed_per_hit = 1.0
    while len(left) >= _FEWEST_TO_LIST:
        after = max(after, _just_before(left[0].key), key=str.encode)
        page = await _page(gateway, view, bucket, after, min(_PAGE, int(listed_per_hit * len(left)) + _SLACK))
        if page is None or not page.entries:
            break
        shown = page.entries
        found = [entry for entry in left if entry.key in shown and holds(entry, identity_of(shown[entry.key]))]
        confirmed.update(found)
        if not page.is_truncated or len(found) * _LISTED_PER_LOOK < len(shown):
            break
        listed_per_hit = len(shown) / len(found)
        after = max(shown, key=str.encode)
        left = [entry for entry in left if _order(entry) > after.encode()]
    return confirmed


async def _page(gateway: Gateway, view: PoolView, bucket: str, after: str, limit: int) -> ObjectPage | None:
    """None where the store gives no page that can be read: then it is asked for the objects instead."""
    query = encoded_query(
        (("encoding-type", "url"), ("list-type", "2"), ("max-keys", str(limit)), ("start-after", after))
    )
    reply = await ask_signed(gateway, view, b"GET", object_path(bucket), query)
    if reply.head.status != 200:
        return None
    try:
        return parse_object_page(reply.body)
    except Unavailable:
        return None


def _order(entry: DeleteEntry) -> bytes:
    return entry.key.encode()


def _just_before(key: str) -> str:
    """A key that comes before this one, with little between them."""
    last = ord(key[-1])
    # Nothing is between a space and the characters that cannot stand in XML; U+E000 follows the surrogates.
    return key[:-1] + (chr(last - 1) if last > 0x21 and last != 0xE000 else "")
