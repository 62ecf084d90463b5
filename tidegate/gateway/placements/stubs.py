"""What a store has in the place of a moved version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.placements import Placement
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway


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
