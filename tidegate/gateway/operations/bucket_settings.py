"""Sub-resources of buckets that the gateway answers itself: the backend never sees them, and no pool wakes for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from tidegate.core import policy_documents
from tidegate.core.cors import CORS
from tidegate.core.cors_xml import cors_xml
from tidegate.core.errors import NotFound
from tidegate.core.events import EventKind, Pairs
from tidegate.core.fixed_answers import FixedAnswer
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.lifecycle.rules_writer import lifecycle_xml
from tidegate.core.lifecycle.rules_xml import parse_lifecycle, transition_minimum
from tidegate.core.records import BucketPolicy
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element
from tidegate.gateway.changes import event_builder
from tidegate.storage_classes import classes_in

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_MINIMUM_HEADER = "x-amz-transition-default-minimum-object-size"
_XML = {"Content-Type": "application/xml"}

Handler = Callable[["Exchange", "Admission"], Awaitable[None]]


class Setting(Protocol):
    """What is kept for a bucket."""

    def to_json(self) -> str: ...

    def digest(self) -> str: ...


# --- lifecycle ---------------------------------------------------------------------------------------------------


async def put_lifecycle(exchange: Exchange, admission: Admission) -> None:
    settings = exchange.gateway.settings.lifecycle
    header = admission.head.headers.get(_MINIMUM_HEADER.encode())
    minimum = transition_minimum(header.decode("latin-1") if header is not None else None)
    gateway = exchange.gateway
    configured = gateway.settings.locations
    classes = await gateway.loop.run_in_executor(None, classes_in, gateway.tables, settings, configured)
    rules = parse_lifecycle(exchange.parsed, storage_classes=classes, minimum=minimum, strict=settings.strict_filters)
    await change_setting(exchange, admission, LIFECYCLE, rules)
    exchange.answer(200, {_MINIMUM_HEADER: minimum.value}, b"")


async def get_lifecycle(exchange: Exchange, admission: Admission) -> None:
    rules = admission.rules
    if rules is None:
        raise S3Error("NoSuchLifecycleConfiguration", fields={"BucketName": admission.bucket_name})
    headers = {**_XML, _MINIMUM_HEADER: rules.minimum.value}
    exchange.answer(200, headers, lifecycle_xml(rules))


async def delete_lifecycle(exchange: Exchange, admission: Admission) -> None:
    # Also where none are known here: another machine may have put them a moment ago.
    await change_setting(exchange, admission, LIFECYCLE, None)
    exchange.answer(204, {}, b"")


# --- CORS --------------------------------------------------------------------------------------------------------


async def put_cors(exchange: Exchange, admission: Admission) -> None:
    await change_setting(exchange, admission, CORS, exchange.parsed)
    exchange.answer(200, {}, b"")


async def get_cors(exchange: Exchange, admission: Admission) -> None:
    if admission.cors is None:
        raise S3Error("NoSuchCORSConfiguration", fields={"BucketName": admission.bucket_name})
    exchange.answer(200, _XML, cors_xml(admission.cors))


async def delete_cors(exchange: Exchange, admission: Admission) -> None:
    await change_setting(exchange, admission, CORS, None)
    exchange.answer(204, {}, b"")


async def change_setting(
    exchange: Exchange,
    admission: Admission,
    prefix: str,
    setting: Setting | None,
    *,
    store: Callable[[str], None] | None = None,
) -> None:
    """Keeps the setting for the bucket, or removes the one that is kept. `store` writes it to its entry in another way,
    and may refuse: the bucket is locked then."""
    gateway, bucket = exchange.gateway, admission.bucket
    assert bucket is not None
    entry = prefix + bucket.uid

    def write() -> bool:
        if not gateway.registry.has_bucket(bucket.name, bucket.uid):
            raise S3Error("NoSuchBucket", fields={"BucketName": bucket.name})
        if store is not None:
            store(entry)
        elif setting is not None:
            gateway.tables.put(entry, setting.to_json())
        elif not gateway.tables.delete(entry):
            return False
        gateway.change_counter.bump()
        return True

    digest = setting.digest() if setting is not None else ""
    await _change(exchange, write, ((admission.operation.subresource, digest),))


# --- policy ------------------------------------------------------------------------------------------------------


async def put_policy(exchange: Exchange, admission: Admission) -> None:
    await _change_policy(exchange, admission, policy_documents.meaning(exchange.parsed, admission.bucket_name))


async def delete_policy(exchange: Exchange, admission: Admission) -> None:
    await _change_policy(exchange, admission, BucketPolicy.NONE)


async def get_policy(exchange: Exchange, admission: Admission) -> None:
    policy = _policy(admission)
    body = policy_documents.document(policy, admission.bucket_name)
    exchange.answer(200, {"Content-Type": "application/json"}, body)


async def get_policy_status(exchange: Exchange, admission: Admission) -> None:
    _policy(admission)  # each but none is for everybody
    status = f'{DECLARATION}<PolicyStatus xmlns="{NAMESPACE}">{element("IsPublic", "true")}</PolicyStatus>'
    exchange.answer(200, _XML, status.encode())


def _policy(admission: Admission) -> BucketPolicy:
    assert admission.bucket is not None
    if admission.bucket.policy == BucketPolicy.NONE:
        raise S3Error("NoSuchBucketPolicy", fields={"BucketName": admission.bucket_name})
    return BucketPolicy(admission.bucket.policy)


async def _change_policy(exchange: Exchange, admission: Admission, policy: BucketPolicy) -> None:
    """The client is answered when every gateway goes by the change."""
    registry, bucket = exchange.gateway.registry, admission.bucket
    assert bucket is not None

    def write() -> bool:
        try:
            registry.set_bucket_policy(bucket.name, policy, uid=bucket.uid)
        except NotFound:
            raise S3Error("NoSuchBucket", fields={"BucketName": bucket.name}) from None
        return True

    await _change(exchange, write, (("policy", policy.value),))
    await asyncio.sleep(registry.in_force_seconds)
    exchange.answer(204, {}, b"")


async def _change(exchange: Exchange, write: Callable[[], bool], attributes: Pairs) -> None:
    """Changes attributes of the bucket under its lock and logs them, unless `write` says that nothing changed."""
    change = exchange.change
    await change.lock([""])
    change.open_intent(exchange.admitted)
    try:
        changed = await exchange.gateway.loop.run_in_executor(None, write)
    except S3Error:
        change.close_intent()  # it is refused, and nothing was changed
        raise
    events = []
    if changed:
        events = [event_builder.event(exchange, EventKind.BUCKET_ATTRIBUTES, key="", attributes=attributes)]
    change.unlock()
    await change.log(events)
    change.close_intent()


# --- what is always the same -------------------------------------------------------------------------------------


def fixed(answer: FixedAnswer) -> Handler:
    async def get(exchange: Exchange, admission: Admission) -> None:
        if answer.error:
            raise S3Error(answer.error, fields={"BucketName": admission.bucket_name})
        exchange.answer(200, _XML, answer.document())

    return get


def restated(answer: FixedAnswer) -> Handler:
    async def put(exchange: Exchange, admission: Admission) -> None:
        if not answer.is_restated(exchange.parsed):
            raise S3Error("NotImplemented", f"The {answer.root} of a bucket cannot be changed.")
        exchange.answer(200, {}, b"")

    return put
