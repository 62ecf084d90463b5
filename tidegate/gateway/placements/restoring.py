"""What workers ask of a gateway before a version is deleted for good, and to bring it back from the trash.

A version is brought back only where nothing took its place. Its record of the trash is claimed first and goes last: a
gateway that is killed in between leaves a version that can be brought back again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from tidegate.core import codec
from tidegate.core.errors import Conflict, InvalidInput
from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedVersion
from tidegate.core.placements import merged, of_version
from tidegate.core.replication.replicas import is_replica
from tidegate.core.s3errors import S3Error
from tidegate.core.trash import TrashRecord, entry_of
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.key_versions import key_versions, stored_versions
from tidegate.gateway.operations.stored_objects import stat
from tidegate.gateway.placements import records
from tidegate.gateway.placements.placing import answer, current_bucket
from tidegate.gateway.placements.settling import make_stub, settle
from tidegate.gateway.placements.stored_version import NotPlaced, describe, parts_of, stored_head
from tidegate.gateway.requests.directory import BucketView
from tidegate.gateway.requests.forwarding import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_JSON = {"Content-Type": "application/json"}
_RESTORED, _KEPT, _GONE = "restored", "kept", "gone"
_T = TypeVar("_T")


class UndeleteRequest(Struct, frozen=True):
    """Which record of the trash is meant, beside the key and the version that the request names."""

    id: str
    dry_run: bool = False


def read_request(body: bytes) -> UndeleteRequest:
    try:
        return codec.decoded(body, UndeleteRequest, "request to bring back an object")
    except InvalidInput as error:
        raise S3Error("InvalidRequest", str(error)) from None


async def describe_version(exchange: Exchange, admission: Admission) -> None:
    """Answers with the version's record, or with the one that it would have if it were moved."""
    gateway, key = exchange.gateway, admission.object_key
    view = await current_bucket(exchange, admission)
    found = await records.of_key(gateway, view.bucket.uid, key)
    record = of_version(found, admission.version_id)
    if record is None:
        admission.pool = await gateway.backends.awake(admission.pool)
        try:
            head = await stored_head(exchange, admission)
        except NotPlaced as error:
            code = "NoSuchKey" if error.outcome == _GONE else "AccessDenied"
            raise S3Error(code, str(error), fields={"Key": key}) from None
        stored = await stored_versions(gateway, admission.pool, view.bucket.name, key)
        record = await describe(exchange, admission, head, stored, found, await parts_of(exchange, admission))
    exchange.answer(200, _JSON, record.to_json().encode())


async def undelete(exchange: Exchange, admission: Admission) -> None:
    """Answers whether the version is there again (`restored`), was left as it is (`kept`), or cannot be brought back
    any more (`gone`)."""
    gateway, request = exchange.gateway, exchange.parsed
    view = await current_bucket(exchange, admission)
    if not view.has_placements and not request.dry_run:
        await records.mark_bucket(gateway, view.bucket.uid)
        view = view._replace(has_placements=True)
        admission.has_placements = True
    admission.pool = await gateway.backends.awake(admission.pool)
    change = exchange.change
    await change.lock([admission.object_key])
    record, stored, reason = await _found(exchange, admission, view, request.id)
    if record is not None and reason and not request.dry_run:
        await _claim(gateway, record, is_claimed=False)  # an earlier attempt has brought nothing back
    if record is None or reason or request.dry_run:
        change.unlock()
        outcome = _GONE if record is None else _KEPT if reason else _RESTORED
        answer(exchange, outcome, reason)
        return
    change.open_intent(admission)
    await _restore(exchange, admission, view, record, stored)
    events = await _events(exchange, admission, record.placement.version_id)
    change.unlock()
    await change.log(events)
    change.close_intent()
    answer(exchange, _RESTORED, "")


async def _found(
    exchange: Exchange, admission: Admission, view: BucketView, record_id: str
) -> tuple[TrashRecord | None, list[ListedVersion], str]:
    """The record of the trash if there is one (still), the key's versions in the store, and why the version must not be
    brought back, if so."""
    gateway, key = exchange.gateway, admission.object_key
    entry = entry_of(view.bucket.uid, key, admission.version_id, record_id)
    text = await _call(gateway, lambda: gateway.tables.get(entry))
    if text is None:
        return None, [], "its grace is over, or it was brought back"
    record = TrashRecord.from_json(text)
    stored = await stored_versions(gateway, admission.pool, view.bucket.name, key)
    moved = await records.of_key(gateway, view.bucket.uid, key)
    known = of_version(moved, record.placement.version_id)
    if known is not None and record.holds(known.location, known.data_key):
        return record, stored, ""  # an earlier attempt was cut off
    if record.until <= time.time():
        return None, [], "its grace is over"
    return record, stored, _why_kept(record, merged(stored, moved), view)


def _why_kept(record: TrashRecord, versions: Sequence[ListedVersion], view: BucketView) -> str:
    """Why the version must not be brought back; `versions` are those that the key has now, the newest first."""
    version_id = record.placement.version_id
    same = next((each for each in versions if (each.version_id or NULL_VERSION) == version_id), None)
    if same is not None and not same.is_marker:
        return "it is there"
    if view.versioning is Versioning.OFF:
        return "it was written again" if any(not each.is_marker for each in versions) else ""
    if same is None:
        return ""
    # A delete marker has the id of the null version. A stub takes its place, if it becomes the null version itself.
    if not same.is_latest:
        return "it was written again"
    return "" if view.versioning is Versioning.SUSPENDED else "its delete marker cannot be replaced any more"


async def _restore(
    exchange: Exchange, admission: Admission, view: BucketView, record: TrashRecord, stored: list[ListedVersion]
) -> None:
    """The key is locked, and nothing has taken the version's place."""
    gateway, key = exchange.gateway, admission.object_key
    version_id = record.placement.version_id
    await _claim(gateway, record, is_claimed=True)
    known = of_version(await records.of_key(gateway, view.bucket.uid, key), version_id)
    if known is None:
        known = record.restored(secrets.token_hex(16), now_ns=time.time_ns())
        await records.put(gateway, known, None)
        # At the end of the grace the record goes before it is asked for the placement.
        if await _call(gateway, lambda: gateway.tables.get(record.entry)) is None:
            await records.release(gateway, known, "the grace is over")
            raise Conflict(f"the grace of {view.bucket.name}/{key} is over")
    has_marker = any(each.is_marker and (each.version_id or NULL_VERSION) == version_id for each in stored)
    if has_marker and not known.has_stub:
        await make_stub(gateway, admission.pool, view, known, ())
    await settle(gateway, admission.pool, view, key)
    # What has got a stub now has taken the place of another one as the current version, which is to know it.
    await settle(gateway, admission.pool, view, key)
    if of_version(await records.of_key(gateway, view.bucket.uid, key), version_id) is None:
        raise Conflict(f"the version of {view.bucket.name}/{key} that was brought back is gone again")
    await _call(gateway, lambda: gateway.tables.delete(record.entry))


async def _claim(gateway: Gateway, record: TrashRecord, *, is_claimed: bool) -> None:
    """What is claimed outlives the end of its grace for a while."""
    before, after = record.to_json(), replace(record, is_claimed=is_claimed).to_json()
    if before != after and not await _call(
        gateway, lambda: gateway.tables.compare_and_set(record.entry, before, after)
    ):
        raise Conflict(f"the record of {record.placement.bucket}/{record.placement.key} in the trash was changed")


async def _events(exchange: Exchange, admission: Admission, version_id: str) -> list[Event]:
    """The log has its versions in the order of their events. So it is told of the version anew, and after it of those
    that stand above it."""
    gateway, key = exchange.gateway, admission.object_key
    listed = await key_versions(gateway, admission.pool, admission.bucket_name, key)
    ids = [each.version_id or NULL_VERSION for each in listed]
    place = ids.index(version_id) if version_id in ids else 0
    return [await _event(exchange, admission, each) for each in reversed(listed[: place + 1])]


async def _event(exchange: Exchange, admission: Admission, listed: ListedVersion) -> Event:
    version_id = listed.version_id if admission.has_versions else ""
    if listed.is_marker:
        return event_builder.event(exchange, EventKind.DELETE_MARKER, version_id=version_id)
    which = (exchange.gateway, admission.pool, admission.bucket_name, admission.object_key, version_id)
    tags, headers = await stored_tags(*which), await stat(*which)
    return event_builder.event(
        exchange,
        EventKind.PUT,
        version_id=version_id,
        etag=listed.etag,
        size=listed.size,
        tags=tags,
        storage_class=listed.storage_class or "STANDARD",
        is_replica=headers is not None and is_replica(headers),
    )


async def _call(gateway: Gateway, work: Callable[[], _T]) -> _T:
    return await gateway.loop.run_in_executor(None, work)
