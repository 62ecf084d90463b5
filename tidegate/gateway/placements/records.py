"""The records of moved versions, as a gateway reads and writes them. Changes are made with the key locked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from tidegate.core import copies
from tidegate.core.errors import Conflict
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.placements import HAS_PLACEMENTS, PLACEMENTS, Placement, entries_of_key, of_version
from tidegate.movement.pending_deletes import append_pending
from tidegate.ports import Tables
from tidegate.table_pages import every

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

# A key has few versions that were moved, but may have many.
_PAGE = 1000
_T = TypeVar("_T")


async def of_key(gateway: Gateway, bucket_uid: str, key: str) -> list[Placement]:
    """All records of one key: as a rule one, or none."""
    prefix = entries_of_key(bucket_uid, key)
    return await _read(gateway, lambda: _scanned(gateway.tables, prefix))


async def of_bucket_key(gateway: Gateway, bucket: str, key: str) -> list[Placement]:
    """The same by the bucket's name. Where nothing was ever moved, the tables are not asked."""
    view = await gateway.directory.current_bucket(bucket)
    return await of_key(gateway, view.bucket.uid, key) if view is not None and view.has_placements else []


async def find(gateway: Gateway, bucket: str, key: str, version_id: str = "") -> Placement | None:
    """The record of a version; without an id, of the current one."""
    return of_version(await of_bucket_key(gateway, bucket, key), version_id)


async def of_keys(gateway: Gateway, bucket_uid: str, keys: Iterable[str]) -> dict[str, list[Placement]]:
    """The records of the keys of a page, by key. Entries stand in the order of keys, and are read in one stretch."""
    wanted = set(keys)
    return await _call(gateway, lambda: _in_range(gateway.tables, bucket_uid, wanted)) if wanted else {}


async def mark_bucket(gateway: Gateway, bucket_uid: str) -> None:
    """Notes down that the bucket has moved objects. Returns when all gateways go by it."""
    if await _call(gateway, lambda: gateway.tables.put_if_absent(HAS_PLACEMENTS + bucket_uid, "1")):
        gateway.change_counter.bump()
    await asyncio.sleep(gateway.registry.in_force_seconds)


async def put(gateway: Gateway, record: Placement, before: Placement | None) -> None:
    """Replaces `before` (None: nothing) by the record. Raises `Conflict` if something else stands there."""
    expected = before.to_json() if before is not None else None
    if not await _call(gateway, lambda: gateway.tables.compare_and_set(record.entry, expected, record.to_json())):
        raise Conflict(f"the record of {record.bucket}/{record.key} was changed by somebody else")


async def put_copied(gateway: Gateway, record: Placement, before: Placement | None) -> bool:
    """Replaces `before` by the record, which refers to a copy, in one step while the copy has its own reference; False
    if it has none any more. Raises `Conflict` if something else stands in the record's place."""
    return await _call(gateway, lambda: _put_copied(gateway.tables, record, before))


async def take_back(gateway: Gateway, record: Placement, before: Placement | None) -> None:
    """What stood before the record stands there again. Raises `Conflict` if something else does by now."""
    text = before.to_json() if before is not None else None
    if not await _call(gateway, lambda: gateway.tables.compare_and_set(record.entry, record.to_json(), text)):
        raise Conflict(f"the record of {record.bucket}/{record.key} was changed by somebody else")


async def release(gateway: Gateway, record: Placement, reason: str) -> None:
    """The version is gone: its data is sent to deletion, then the record is dropped. What could not be sent stays."""
    if record.location:
        await send(gateway, [pending_data(record, reason)])
    await _call(gateway, lambda: gateway.tables.delete(record.entry))


def pending_data(record: Placement, reason: str) -> PendingDelete:
    """The data of a record, where that lies in a location."""
    return PendingDelete(
        component=Component.PLACEMENT,
        data_type=DataType.LOCATION,
        pool=record.pool,
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        sent_ns=time.time_ns(),
        location=record.location,
        data_key=record.data_key,
        etag=record.data_etag,
        reason=reason,
    )


def pending_original(record: Placement) -> PendingDelete:
    """The version itself, which the store still has."""
    return PendingDelete(
        component=Component.VERSION,
        data_type=DataType.STORE,
        pool=record.pool,
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        sent_ns=time.time_ns(),
        etag=record.etag,
        reason="moved",
    )


async def send(gateway: Gateway, pendings: list[PendingDelete]) -> None:
    """The first phase. Raises `Unavailable` if they could not be sent: then the records stay as they are."""
    topic = gateway.settings.deletion.topic
    await _call(gateway, lambda: append_pending(gateway.deletion_topics(), topic, pendings))


async def _read(gateway: Gateway, work: Callable[[], _T]) -> _T:
    """Where tables are a file, reading takes less time than another thread does to begin."""
    return work() if gateway.tables.reads_at_once else await _call(gateway, work)


async def _call(gateway: Gateway, work: Callable[[], _T]) -> _T:
    return await gateway.loop.run_in_executor(None, work)


def _put_copied(tables: Tables, record: Placement, before: Placement | None) -> bool:
    entry = copies.entry_of(record.location, record.data_key)
    expected = before.to_json() if before is not None else None
    while (copy := tables.get(entry)) is not None:
        if tables.change({record.entry: record.to_json()}, expected={entry: copy, record.entry: expected}):
            return True
        if tables.get(record.entry) != expected:
            raise Conflict(f"the record of {record.bucket}/{record.key} was changed by somebody else")
    return False


def _scanned(tables: Tables, prefix: str) -> list[Placement]:
    return [Placement.from_json(text) for _, text in every(tables, prefix)]


def _in_range(tables: Tables, bucket_uid: str, keys: set[str]) -> dict[str, list[Placement]]:
    found: dict[str, list[Placement]] = {}
    prefix = f"{PLACEMENTS}{bucket_uid}/"
    first, last = min(keys, key=str.encode), max(keys, key=str.encode)
    after, end = prefix + first, entries_of_key(bucket_uid, last)
    while True:
        page = tables.scan(prefix, after=after, limit=_PAGE)
        for entry, text in page:
            if entry.encode() > end.encode() and not entry.startswith(end):
                return found
            record = Placement.from_json(text)
            if record.key in keys:
                found.setdefault(record.key, []).append(record)
        if len(page) < _PAGE:
            return found
        after = page[-1][0]
