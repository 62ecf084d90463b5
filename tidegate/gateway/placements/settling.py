"""Records of moved versions kept in step with their keys: after each change of a key whose versions were moved.

The key is locked meanwhile. What a gateway that is killed leaves undone, the healer finishes: the change's intent is
open until the records are in step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core import xml
from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedVersion
from tidegate.core.placements import STUB_HEADER, Placement, doubtful, must_stay, of_version, settled
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.key_versions import ask_bucket, stored_versions
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements import records
from tidegate.gateway.placements.stored_version import identity_of
from tidegate.gateway.placements.stubs import delete_stored, delete_version, shown, stub_name
from tidegate.gateway.requests.directory import BucketView, Missing, PoolView
from tidegate.gateway.requests.forwarding import ask_signed, object_path

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

_DELETE = "DeleteObject"


def may_have_placements(exchange: Exchange) -> bool:
    """Whether the bucket has moved objects now: the first one may have been moved since the request was admitted."""
    if exchange.admitted.has_placements:
        return True
    try:
        view = exchange.gateway.directory.bucket(exchange.admitted.bucket_name)
    except Missing:
        return True
    return view is not None and view.has_placements


async def settle_change(exchange: Exchange) -> None:
    """After a change that the exchange has made to its key. A version that the store has deleted may have been moved
    since the request was admitted."""
    admission = exchange.admitted
    deleted = admission.version_id if admission.operation.name == _DELETE else ""
    view = await exchange.gateway.directory.current_bucket(admission.bucket_name)
    if view is not None and view.has_placements:
        await settle(exchange.gateway, admission.pool, view, admission.object_key, deleted=deleted)


async def settle(gateway: Gateway, pool: PoolView, view: BucketView, key: str, *, deleted: str = "") -> None:
    """Brings the records of the key in step with its versions in the store. `deleted` is the id of a version that was
    deleted. Raises `Unavailable`; then it must be done again."""
    found = await records.of_key(gateway, view.bucket.uid, key)
    if not found:
        return
    stored = await stored_versions(gateway, pool, view.bucket.name, key)
    names = await stub_names(gateway, pool, view, key, stored)
    for version_id in doubtful(found, stored):
        names[version_id] = await _stub_name(gateway, pool, view, key, version_id)
    outcome = settled(found, stored, stub_names=names, deleted=deleted)
    before = {record.version_id: record for record in found}
    for record in outcome.released:
        if record.has_stub and must_stay(record, stored) and not record.is_void:
            void = replace(record, version_id=record.stub_id, location="", data_key="", is_current=False, is_void=True)
            await records.put(gateway, void, before.get(void.version_id))
        elif record.version_id != NULL_VERSION and names.get(NULL_VERSION) == record.stub_name:
            # Its stub was put while versioning was suspended, and has no id.
            await delete_version(gateway, pool, view.bucket.name, key, NULL_VERSION)
        else:
            await delete_stored(gateway, pool, record)
        await records.release(gateway, record, "deleted" if record.version_id == deleted else "replaced or deleted")
    for record in outcome.kept:
        known = before[record.version_id]
        if record.has_original and not known.has_original:
            await records.send(gateway, [records.pending_original(record)])
        await records.put(gateway, record, known)
        before[record.version_id] = record
    if outcome.promoted is not None:
        known = before[outcome.promoted.version_id]
        if_match = await replaced_etag(gateway, pool, view, known, stored)
        try:
            made = await make_stub(gateway, pool, view, known, stored, if_match=if_match)
        except S3Error:
            raise Unavailable(f"the current version of {known.bucket}/{key} was changed by somebody else") from None
        await delete_stored(gateway, pool, known, unless=made.stub_id)
    for version_id in outcome.stale:
        await delete_version(gateway, pool, view.bucket.name, key, version_id)


async def settle_left(gateway: Gateway, pool: PoolView, bucket: str, key: str, version_id: str) -> None:
    """After a change that a gateway has left open. If it was to delete a version by its id and the stub is gone, the
    version is: that is the first thing that such a delete does."""
    view = await gateway.directory.current_bucket(bucket)
    if view is None or not view.has_placements:
        return
    record = of_version(await records.of_key(gateway, view.bucket.uid, key), version_id) if version_id else None
    deleted = ""
    if record is not None and record.stub_id:
        stored = await stored_versions(gateway, pool, bucket, key)
        deleted = "" if any(version.version_id == record.stub_id for version in stored) else version_id
    await settle(gateway, pool, view, key, deleted=deleted)


async def stub_names(
    gateway: Gateway, pool: PoolView, view: BucketView, key: str, stored: Sequence[ListedVersion]
) -> dict[str, str]:
    """Of the null version, whose id is used again and again, the record that its metadata names; "" for no stub."""
    if all(version.is_marker for version in stored if version.version_id in ("", NULL_VERSION)):
        return {}
    named = NULL_VERSION if view.versioning is not Versioning.OFF else ""
    return {NULL_VERSION: await _stub_name(gateway, pool, view, key, named)}


async def _stub_name(gateway: Gateway, pool: PoolView, view: BucketView, key: str, version_id: str) -> str:
    return stub_name(await shown(gateway, pool, view.bucket.name, key, version_id))


async def make_stub(
    gateway: Gateway,
    pool: PoolView,
    view: BucketView,
    record: Placement,
    stored: Sequence[ListedVersion],
    *,
    if_match: str = "",
) -> Placement:
    """Gives the version, which is the current one, its stub, and notes that down. `stored` are the key's versions that
    the store had before. The version itself goes to deletion, if the store still has it.

    `if_match` is the ETag of what the store has as the current version now. Raises `S3Error` if something else is that
    by the time at which the store gets to the request.
    """
    if await would_replace_null(gateway, pool, view.bucket.name, record.version_id, stored):
        logger.warning(
            "%s/%s: version %s is current and lies in %s, but a stub would replace the null version",
            record.bucket, record.key, record.version_id, record.location,
        )  # fmt: skip
        return record
    head = await _put_stub(gateway, pool, record, if_match)
    stub_id = head.headers.get(b"x-amz-version-id", b"").decode("latin-1")
    is_elsewhere = (stub_id or NULL_VERSION) != record.version_id
    has_original = is_elsewhere and any(version.version_id == record.version_id for version in stored)
    made = replace(record, has_stub=True, stub_id=stub_id, is_current=True, has_original=has_original)
    if has_original:
        await records.send(gateway, [records.pending_original(made)])
    await records.put(gateway, made, record)
    return made


async def _put_stub(gateway: Gateway, pool: PoolView, record: Placement, if_match: str) -> ResponseHead:
    """What the store answers, or shows of the stub. A store may carry the request out when the gateway has long given
    up, and the key is free: a stub takes the place of nothing that a client has put since, but of an object with the
    same ETag."""
    path = object_path(record.bucket, record.key)
    headers = [(STUB_HEADER.encode(), record.stub_name.encode())]
    conditions = [(b"if-match", f'"{if_match}"'.encode())] if if_match else []
    head = (await ask_signed(gateway, pool, b"PUT", path, headers=headers + conditions)).head
    if conditions and head.status in (404, 412):
        found = await shown(gateway, pool, record.bucket, record.key)
        identity = identity_of(found) if found.status == 200 else None
        if identity is not None and stub_name(found) == record.stub_name and not identity.size:
            return found  # an earlier attempt, whose answer was lost, has put it
        if identity is None or identity.etag != if_match:
            raise S3Error("PreconditionFailed")
        # While versioning is suspended, SeaweedFS compares with the null version alone, whatever is current.
        head = (await ask_signed(gateway, pool, b"PUT", path, headers=headers)).head
    if head.status != 200:
        raise Unavailable(f"the backend does not take the stub of a moved object ({head.status})")
    return head


async def replaced_etag(
    gateway: Gateway, pool: PoolView, view: BucketView, record: Placement, stored: Sequence[ListedVersion]
) -> str:
    """The ETag of what the store has as the current version, before the record's version gets a stub; "" for none."""
    if not stored or stored[0].is_marker:
        return ""
    if not record.has_stub and (stored[0].version_id or NULL_VERSION) == record.version_id:
        return record.etag
    head = await shown(gateway, pool, view.bucket.name, record.key)
    return identity_of(head).etag if head.status == 200 else ""


async def would_replace_null(
    gateway: Gateway, pool: PoolView, bucket: str, version_id: str, stored: Sequence[ListedVersion]
) -> bool:
    """Whether what is put for the version would take the place of the null version: while versioning is suspended,
    whatever is put becomes that. The store is asked, since versioning may have been suspended a moment ago."""
    if version_id == NULL_VERSION or not any(version.version_id == NULL_VERSION for version in stored):
        return False
    return await is_suspended(gateway, pool, bucket)


async def is_suspended(gateway: Gateway, pool: PoolView, bucket: str) -> bool:
    answer = xml.parse_reply(await ask_bucket(gateway, pool, bucket, {"versioning": ""}))
    return answer.fields.get("Status") == Versioning.SUSPENDED
