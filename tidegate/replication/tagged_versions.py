"""Versions that go to sites because of tags that they got after they were written.

A tagging event tells neither when the version was written nor, mostly, which one it is: the source is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidegate.core.errors import NotFound, TidegateError, Unavailable
from tidegate.core.events import NULL_VERSION, Event
from tidegate.core.identities import moment
from tidegate.core.replication.records import ReplicationRecord, entry_of
from tidegate.core.replication.replicas import is_shown_as_replica
from tidegate.core.replication.rules import ReplicationRules
from tidegate.movement.deletion import PoolStores
from tidegate.ports import StoredHead
from tidegate.replication.enqueueing import queued

_NS = 1_000_000_000

logger = logging.getLogger(__name__)


class SourceAway(Exception):
    """The pool's store does not answer now."""


class TaggedVersions:
    """A pool whose store does not answer is asked once in a batch of events."""

    def __init__(self, stores: PoolStores) -> None:
        self._stores = stores
        self._away: set[str] = set()

    def begin(self) -> None:
        """Another batch of events."""
        self._away.clear()

    def find(
        self, event: Event, rules: ReplicationRules, is_known: Callable[[str], bool], *, now: float
    ) -> ReplicationRecord | None:
        """The record for a version that has none and that the rules send to sites by now. `is_known` tells whether
        there is a record at an entry. Raises `SourceAway`."""
        if not (rules.needs_tags and rules.may_send(event.key, event.tags)):
            return None
        if event.version_id and is_known(entry_of(event.bucket_uid, event.key, event.version_id)):
            return None
        head = self._head(event)
        version_id = head.headers.get("x-amz-version-id", "") if head is not None else ""
        modified = moment(head.headers.get("last-modified", "")) if head is not None else None
        if head is None or modified is None or version_id in ("", NULL_VERSION) or is_shown_as_replica(head.headers):
            return None
        is_later = modified > event.ts_ns / _NS
        if is_later or is_known(entry_of(event.bucket_uid, event.key, version_id)):
            return None
        record = ReplicationRecord(
            pool=event.pool,
            bucket=event.bucket,
            bucket_uid=event.bucket_uid,
            key=event.key,
            version_id=version_id,
            # Without an id the event means the version that was current then: all others of that time are older.
            ts_ns=int(modified * _NS) if event.version_id else event.ts_ns,
            last_modified=modified,
            size=head.size,
            etag=head.etag,
        )
        targets = rules.targets(event.key, event.tags, written_at=modified)
        return queued(record, targets, now=now) if targets else None

    def _head(self, event: Event) -> StoredHead | None:
        if event.pool in self._away:
            raise SourceAway(f"pool {event.pool} does not answer")
        try:
            return self._stores.of_pool(event.pool).head(event.bucket, event.key, event.version_id)
        except NotFound:
            return None
        except Unavailable as error:
            self._away.add(event.pool)
            raise SourceAway(str(error)) from error
        except TidegateError as error:
            logger.warning(
                "%s/%s was tagged, and whether it is to be replicated is left to a backfill: %s",
                event.bucket,
                event.key,
                error,
            )
            return None
