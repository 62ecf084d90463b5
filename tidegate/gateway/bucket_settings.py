"""Sub-resources of buckets that the gateway answers itself: the backend never sees them, and no pool wakes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidegate.core.cors import CORS
from tidegate.core.cors_xml import cors_xml
from tidegate.core.events import EventKind
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.lifecycle.rules_writer import lifecycle_xml
from tidegate.core.lifecycle.rules_xml import parse_lifecycle, transition_minimum
from tidegate.core.s3errors import S3Error
from tidegate.gateway import journalling

if TYPE_CHECKING:
    from tidegate.gateway.admission import Admission
    from tidegate.gateway.exchange import Exchange

_MINIMUM_HEADER = "x-amz-transition-default-minimum-object-size"


class Setting(Protocol):
    """What is kept for a bucket."""

    def to_json(self) -> str: ...

    def digest(self) -> str: ...


async def put_lifecycle(exchange: Exchange, admission: Admission) -> None:
    settings = exchange.gateway.settings.lifecycle
    header = admission.head.headers.get(_MINIMUM_HEADER.encode())
    minimum = transition_minimum(header.decode("latin-1") if header is not None else None)
    rules = parse_lifecycle(
        exchange.parsed, storage_classes=settings.storage_classes, minimum=minimum, strict=settings.strict_filters
    )
    await _change(exchange, admission, LIFECYCLE, rules)
    exchange.answer(200, {_MINIMUM_HEADER: minimum.value}, b"")


async def get_lifecycle(exchange: Exchange, admission: Admission) -> None:
    rules = admission.rules
    if rules is None:
        raise S3Error("NoSuchLifecycleConfiguration", fields={"BucketName": admission.bucket_name})
    headers = {"Content-Type": "application/xml", _MINIMUM_HEADER: rules.minimum.value}
    exchange.answer(200, headers, lifecycle_xml(rules))


async def delete_lifecycle(exchange: Exchange, admission: Admission) -> None:
    # Also where none are known here: another machine may have put them a moment ago.
    await _change(exchange, admission, LIFECYCLE, None)
    exchange.answer(204, {}, b"")


async def put_cors(exchange: Exchange, admission: Admission) -> None:
    await _change(exchange, admission, CORS, exchange.parsed)
    exchange.answer(200, {}, b"")


async def get_cors(exchange: Exchange, admission: Admission) -> None:
    if admission.cors is None:
        raise S3Error("NoSuchCORSConfiguration", fields={"BucketName": admission.bucket_name})
    exchange.answer(200, {"Content-Type": "application/xml"}, cors_xml(admission.cors))


async def delete_cors(exchange: Exchange, admission: Admission) -> None:
    await _change(exchange, admission, CORS, None)
    exchange.answer(204, {}, b"")


async def _change(exchange: Exchange, admission: Admission, prefix: str, setting: Setting | None) -> None:
    gateway, bucket = exchange.gateway, admission.bucket
    assert bucket is not None
    entry = prefix + bucket.uid
    await exchange.take_turns([""])
    if not await gateway.loop.run_in_executor(None, gateway.registry.has_bucket, bucket.name, bucket.uid):
        raise S3Error("NoSuchBucket", fields={"BucketName": bucket.name})
    exchange.begin_change()

    def write() -> bool:
        if setting is not None:
            gateway.tables.put(entry, setting.to_json())
            return True
        return gateway.tables.delete(entry)

    changed = await gateway.loop.run_in_executor(None, write)
    events = []
    if changed:
        gateway.changes.bump()
        attributes = ((admission.operation.subresource, setting.digest() if setting is not None else ""),)
        events = [journalling.event(exchange, EventKind.BUCKET_ATTRIBUTES, key="", attributes=attributes)]
    await exchange.journalled(events)
