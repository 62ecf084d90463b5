"""What a store has in the place of a moved version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.placements import STUB_HEADER, Placement
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway


async def shown(gateway: Gateway, pool: PoolView, bucket: str, key: str, version_id: str = "") -> ResponseHead:
    """How the store shows a version, or, without an id, the current one. A client's encrypted object, which is not
    shown, is no stub. A store that has trouble tells nothing: data must not be released for that."""
    reply = await ask_signed(gateway, pool, b"HEAD", object_path(bucket, key), version_query(version_id))
    if reply.head.status not in (200, 400, 403, 404, 405):
        raise Unavailable(f"the backend does not show what it has stored ({reply.head.status})")
    return reply.head


def stub_name(head: ResponseHead) -> str:
    """What record the metadata of a version in the store names; "" for no stub."""
    return head.headers.get(STUB_HEADER.encode(), b"").decode("latin-1")


async def delete_stored(gateway: Gateway, pool: PoolView, record: Placement, *, unless: str = "") -> None:
    """Deletes what the store has in the place of the version, under an id that no client knows."""
    if not record.has_stub or record.stub_id in ("", unless):
        return
    await delete_version(gateway, pool, record.bucket, record.key, record.stub_id)


async def delete_version(gateway: Gateway, pool: PoolView, bucket: str, key: str, version_id: str) -> None:
    """Deletes what the store has under the id, if anything."""
    reply = await ask_signed(gateway, pool, b"DELETE", object_path(bucket, key), version_query(version_id))
    if reply.head.status not in (200, 204, 404):
        raise Unavailable(f"the backend does not delete a version ({reply.head.status})")
