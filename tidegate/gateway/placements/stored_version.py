"""A version that lies in a pool's own store, as its record would describe it if it were moved."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION, Pairs
from tidegate.core.identities import Identity, moment
from tidegate.core.listings import ListedVersion
from tidegate.core.placements import Placement, merged
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements.moved_headers import kept_headers
from tidegate.gateway.requests.forwarding import ask_signed, encoded_query, object_path, stored_tags, version_query

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_MOST_PARTS_AT_ONCE = 16
_PARTS, _TAGS = b"x-amz-mp-parts-count", b"x-amz-tagging-count"


class NotPlaced(Exception):
    """The version stays as it is. `outcome` is what the worker is told."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


async def stored_head(exchange: Exchange, admission: Admission) -> ResponseHead:
    path, query = object_path(admission.bucket_name, admission.object_key), version_query(admission.version_id)
    mode = ((b"x-amz-checksum-mode", b"ENABLED"),)
    reply = await ask_signed(exchange.gateway, admission.pool, b"HEAD", path, query, headers=mode)
    if reply.head.status in (404, 405):
        raise NotPlaced("gone", "there is no such version")
    if reply.head.status in (400, 403):
        raise NotPlaced("refused", "the object is encrypted with a client's key")
    if reply.head.status != 200:
        raise Unavailable(f"the backend does not show what it has stored ({reply.head.status})")
    return reply.head


async def parts_of(exchange: Exchange, admission: Admission, etag: str = "") -> tuple[int, ...]:
    """The sizes of the parts in which an object was uploaded; none where the store does not tell. `etag` is that of
    what was copied, which is compared later: if it is no upload's, the store is not asked."""
    if etag and "-" not in etag:
        return ()
    gateway, path = exchange.gateway, object_path(admission.bucket_name, admission.object_key)
    gate = asyncio.Semaphore(_MOST_PARTS_AT_ONCE)

    async def part(number: int) -> ResponseHead:
        query = {"partNumber": str(number)} | ({"versionId": admission.version_id} if admission.version_id else {})
        async with gate:
            reply = await ask_signed(gateway, admission.pool, b"HEAD", path, encoded_query(query.items()))
        return reply.head

    whole = await ask_signed(gateway, admission.pool, b"HEAD", path, version_query(admission.version_id))
    if "-" not in _etag(whole.head):
        return ()
    first = await part(1)
    count = _text(first, _PARTS)
    if first.status not in (200, 206) or not count.isdigit():
        return ()
    heads = [first, *await asyncio.gather(*map(part, range(2, int(count) + 1)))]
    sizes = tuple(int(head.headers.get(b"content-length", b"0")) for head in heads)
    return sizes if sum(sizes) == int(whole.head.headers.get(b"content-length", b"0")) else ()


async def describe(
    exchange: Exchange,
    admission: Admission,
    head: ResponseHead,
    stored: Sequence[ListedVersion],
    moved: Sequence[Placement],
    parts: tuple[int, ...],
) -> Placement:
    """`head` is what the store shows of the version, `stored` are all its versions of the key, the newest first, and
    `moved` the records of others that were moved. Where the data is to lie is not said yet."""
    bucket, key = admission.bucket, admission.object_key
    assert bucket is not None
    shown, version_id = identity_of(head), version_id_of(head)
    listed = listed_version(stored, version_id)
    above, below = _neighbours(merged(stored, moved), version_id)
    tags: Pairs = ()
    if head.headers.get(_TAGS, b"0") != b"0":
        tags = await stored_tags(exchange.gateway, admission.pool, bucket.name, key, admission.version_id)
    return Placement(
        id=secrets.token_hex(16),
        pool=bucket.pool,
        bucket=bucket.name,
        bucket_uid=bucket.uid,
        key=key,
        version_id=version_id,
        location="",
        data_key="",
        size=shown.size,
        etag=shown.etag,
        modified=listed.modified,
        last_modified=shown.modified or listed.last_modified,
        storage_class=_text(head, b"x-amz-storage-class"),
        moved_ns=0,
        listed_etag=listed.etag,
        is_current=listed.is_latest,
        headers=kept_headers(head),
        tags=tags,
        parts=parts,
        above=above,
        below=below,
    )


def _neighbours(shown: Sequence[ListedVersion], version_id: str) -> tuple[str, str]:
    """The ids, as clients know them, of the versions right above and below; "" for none."""
    ids = ["", *(version.version_id for version in shown), ""]
    place = ids.index(version_id) if version_id in ids else 0
    return ids[place - 1], ids[place + 1]


def listed_version(stored: Sequence[ListedVersion], version_id: str) -> ListedVersion:
    for version in stored:
        if (version.version_id or NULL_VERSION) == version_id and not version.is_marker:
            return version
    raise Unavailable("the backend shows a version that it does not list")


def identity_of(head: ResponseHead) -> Identity:
    size = int(head.headers.get(b"content-length", b"0"))
    return Identity(_etag(head), size, moment(_text(head, b"last-modified")))


def version_id_of(head: ResponseHead) -> str:
    return _text(head, b"x-amz-version-id") or NULL_VERSION


def _text(head: ResponseHead, name: bytes) -> str:
    return head.headers.get(name, b"").decode("latin-1")


def _etag(head: ResponseHead) -> str:
    return _text(head, b"etag").strip('"')
