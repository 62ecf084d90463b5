"""What the gateway notes down of buckets for lifecycle, so that a pass need not wake a pool to ask for it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from tidegate.core import listings, xml
from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.records import BucketState
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import ask_signed, object_path, read_bucket
from tidegate.ports import Tables

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)


def note_created(tables: Tables, bucket_uid: str, *, is_versioned: bool) -> None:
    """Of a bucket that was made just now, and so is empty."""
    versioning = Versioning.ENABLED if is_versioned else Versioning.OFF
    tables.put(BucketState.PREFIX + bucket_uid, BucketState(versioning.value).to_json())


def note_versioning(tables: Tables, bucket_uid: str, versioning: str) -> None:
    """Call this while the bucket is locked. What a bucket held before anything was noted of it is not in the log."""
    entry = BucketState.PREFIX + bucket_uid
    text = tables.get(entry)
    complete_since_ns = BucketState.from_json(text).complete_since_ns if text is not None else time.time_ns()
    tables.put(entry, BucketState(versioning, complete_since_ns).to_json())


async def learn_versioning(exchange: Exchange) -> None:
    """Asks for the versioning of a bucket of which nothing was noted down, once. Whoever notes down more meanwhile is
    right: that stays. What the store does not tell stays unknown."""
    gateway, admission = exchange.gateway, exchange.admitted
    bucket = admission.bucket
    if admission.versioning is not None or bucket is None:
        return
    try:
        status = xml.parse_reply(await read_bucket(exchange, {"versioning": ""})).fields.get("Status", "")
    except TidegateError as error:
        logger.warning("request %s: the versioning of %s stays unknown: %s", exchange.request_id, bucket.name, error)
        return
    admission.versioning = Versioning(status or Versioning.OFF)
    state = BucketState(admission.versioning.value, time.time_ns()).to_json()
    await gateway.loop.run_in_executor(None, gateway.tables.put_if_absent, BucketState.PREFIX + bucket.uid, state)
    gateway.change_counter.bump()


async def note_found(gateway: Gateway, view: PoolView, bucket: str, bucket_uid: str) -> None:
    """Of a bucket that the store had already: the pool's manager may have made it, or it was left there by a bucket
    of the same name, with its contents. Call this while the bucket is locked, before the client can write to it."""
    queries = (b"versioning=", b"max-keys=1&versions=", b"max-uploads=1&uploads=")
    replies = [await ask_signed(gateway, view, b"GET", object_path(bucket), query) for query in queries]
    if any(reply.head.status != 200 for reply in replies):
        return  # the first pass asks again
    status = xml.parse_reply(replies[0].body).fields.get("Status", "")
    is_empty = not (
        listings.parse_version_page(replies[1].body).versions or listings.parse_upload_page(replies[2].body).uploads
    )
    state = BucketState(status or Versioning.OFF.value, 0 if is_empty else time.time_ns())
    await gateway.loop.run_in_executor(None, gateway.tables.put, BucketState.PREFIX + bucket_uid, state.to_json())
