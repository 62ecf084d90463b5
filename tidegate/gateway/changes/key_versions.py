"""All versions of a key: as its store lists them, and as clients see them, who know nothing of stubs. The key is locked
meanwhile, so that they do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.key_versions import search_versions
from tidegate.core.listings import ListedVersion, parse_version_page
from tidegate.core.placements import merged
from tidegate.gateway.placements import records
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway


class ListingsDoNotTell(Unavailable):
    """The store lists so many other keys in the place of this one that its versions cannot be found."""


async def key_versions(gateway: Gateway, view: PoolView, bucket: str, key: str) -> list[ListedVersion]:
    """As clients see them, the newest first. Raises `ListingsDoNotTell`."""
    moved = await records.of_bucket_key(gateway, bucket, key)
    return merged(await stored_versions(gateway, view, bucket, key), moved)


async def stored_versions(gateway: Gateway, view: PoolView, bucket: str, key: str) -> list[ListedVersion]:
    """As the store has them, the newest first. Raises `ListingsDoNotTell`."""
    search = search_versions(key)
    try:
        query = next(search)
        while True:
            asked = {
                "versions": "",
                "encoding-type": "url",
                "prefix": query.prefix,
                "delimiter": query.delimiter,
                "key-marker": query.key_marker,
                "version-id-marker": query.version_id_marker,
            }
            given = {name: value for name, value in asked.items() if value or name == "versions"}
            query = search.send(parse_version_page(await ask_bucket(gateway, view, bucket, given)))
    except StopIteration as end:
        found: list[ListedVersion] | None = end.value
    if found is None:
        raise ListingsDoNotTell(f"the backend's listings do not tell the versions of {bucket}/{key}")
    return found


async def ask_bucket(gateway: Gateway, view: PoolView, bucket: str, query: dict[str, str]) -> bytes:
    """The answer to a question about a bucket."""
    reply = await ask_signed(gateway, view, b"GET", object_path(bucket), encoded_query(query.items()))
    if reply.head.status != 200:
        raise Unavailable(f"the backend answered a question about {bucket} with {reply.head.status}")
    return reply.body
