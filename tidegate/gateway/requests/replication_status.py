"""The header `x-amz-replication-status` on replies that show an object.

The version's record says how its replication stands. Where a bucket has rules, it is read when the reply tells which
version it shows; from tables behind a network, the records of the key are read before the backend is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.core.events import Pairs
from tidegate.core.placements import Placement
from tidegate.core.replication.records import ReplicationRecord, Status, entries_of_key, entry_of
from tidegate.core.replication.replicas import is_replica, is_shown_as_replica
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests.expiration import last_modified
from tidegate.gateway.requests.forwarding import ask_signed, object_path

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

HEADER = "x-amz-replication-status"
# Of a key with more records than these, the one is read that the backend says to be current.
_MOST_READ = 100


def needs_tags(admission: Admission) -> bool:
    """Whether the tags of a stored object must be known to tell that it is still to be replicated."""
    return admission.replication is not None and admission.replication.needs_tags


def is_read_before(exchange: Exchange, admission: Admission) -> bool:
    return admission.replication is not None and not exchange.gateway.tables.reads_at_once


async def read_before(exchange: Exchange, admission: Admission) -> Mapping[str, str]:
    """The records, by their entries, of the version that is asked for, or of those that the key has."""
    assert admission.bucket is not None
    gateway, uid = exchange.gateway, admission.bucket.uid
    key, version_id = admission.object_key, admission.version_id
    if not version_id:
        prefix = entries_of_key(uid, key)
        found = await gateway.loop.run_in_executor(None, partial(gateway.tables.scan, prefix, limit=_MOST_READ))
        if len(found) < _MOST_READ:
            return dict(found)
        version_id = await _current_version(exchange, admission)
    entry = entry_of(uid, key, version_id)
    text = await gateway.loop.run_in_executor(None, gateway.tables.get, entry)
    return {} if text is None else {entry: text}


async def _current_version(exchange: Exchange, admission: Admission) -> str:
    gateway = exchange.gateway
    admission.pool = await gateway.backends.awake(admission.pool)
    path = object_path(admission.bucket_name, admission.object_key)
    reply = await ask_signed(gateway, admission.pool, b"HEAD", path)
    return reply.head.headers.get(b"x-amz-version-id", b"").decode("latin-1")


def of_read(exchange: Exchange, reply: ResponseHead) -> bytes:
    """The line for the head of a reply that shows an object."""
    if reply.status not in (200, 206):
        return b""
    admission, value = exchange.admitted, ""
    if admission.replication is not None and admission.bucket is not None:
        version_id = reply.headers.get(b"x-amz-version-id", b"").decode("latin-1") or admission.version_id
        try:
            text = _record(exchange, entry_of(admission.bucket.uid, admission.object_key, version_id))
            value = _status(admission, text, exchange.tags, last_modified(reply), is_replica=is_replica(reply.headers))
        except TidegateError as error:
            logger.warning("request %s: the replication status cannot be told: %s", exchange.request_id, error)
    elif is_replica(reply.headers):
        value = Status.REPLICA
    return f"{HEADER}: {value}".encode() if value else b""


async def of_moved(exchange: Exchange, admission: Admission, record: Placement) -> str:
    """The header's value for an object that was moved, "" if there is none."""
    replica = is_shown_as_replica({name.lower(): value for name, value in record.headers})
    if admission.replication is None:
        return Status.REPLICA if replica else ""
    gateway, entry = exchange.gateway, entry_of(record.bucket_uid, record.key, record.version_id)
    if gateway.tables.reads_at_once:
        text = gateway.tables.get(entry)
    else:
        text = await gateway.loop.run_in_executor(None, gateway.tables.get, entry)
    return _status(admission, text, record.tags, record.last_modified, is_replica=replica)


def _record(exchange: Exchange, entry: str) -> str | None:
    tables = exchange.gateway.tables
    if tables.reads_at_once:
        return tables.get(entry)
    read: Mapping[str, str] = exchange.noted or {}
    return read.get(entry)


def _status(admission: Admission, text: str | None, tags: Pairs, written_at: float | None, *, is_replica: bool) -> str:
    """A version that has no record yet is on its way to one, if the rules were there when it was written."""
    if text is not None:
        return ReplicationRecord.from_json(text).status
    if is_replica:
        return Status.REPLICA
    rules = admission.replication
    if rules is None or written_at is None:
        return ""
    return Status.PENDING if rules.targets(admission.object_key, tags, written_at=written_at) else ""
