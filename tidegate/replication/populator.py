"""The populator: reads the metadata log and queues the versions that rules send to sites.

What holds is read from the tables, so that events that come twice or late do no harm. Where no bucket has rules, events
are passed over without being parsed, and so are those of buckets without rules.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.events import NULL_VERSION, Event, EventKind
from tidegate.core.replication.messages import POPULATOR_GROUP
from tidegate.core.replication.records import RECORDS
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.movement.deletion import PoolStores
from tidegate.ports import Consumer, Message, Tables, Topics
from tidegate.replication.event_batch import EventBatch
from tidegate.replication.stored_rules import StoredRules
from tidegate.replication.tagged_versions import SourceAway, TaggedVersions
from tidegate.workers.lag_gauge import LagGauge

_BATCH = 1000
_WAIT_SECONDS = 1.0
# A source that does not answer is asked again every minute, for a day.
_AWAY_SECONDS = 60.0
_MOST_ATTEMPTS = 24 * 60
# The first of a record is that of its bucket: quotes within keys are escaped.
_BUCKET = re.compile(rb'"bucket_uid":"([^"]*)"')
_OF_VERSIONS = (EventKind.PUT, EventKind.DELETE_MARKER)

logger = logging.getLogger(__name__)


class Populator:
    """A member of its group. For one thread. `stores` has the sources; `now` gives the Unix time."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: PoolStores,
        *,
        log_topic: str,
        stop: Flag,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._log_topic = log_topic
        self._stop = stop
        self._now = now
        self._rules = StoredRules(tables)
        self._tagged = TaggedVersions(stores)
        self._consumer: Consumer | None = None
        self._lag = LagGauge(topics, log_topic, POPULATOR_GROUP)

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Takes in one batch of events and says how many there were."""
        self._lag.show()  # before anything is polled: what is polled and not finished comes again when it is closed
        if self._consumer is None:
            self._consumer = self._topics.consumer(self._log_topic, POPULATOR_GROUP)
        messages = self._consumer.poll(_BATCH, wait_seconds)
        try:
            finished = self._taken_in(self._consumer, messages) if messages and self._has_work() else messages
            self._consumer.acknowledge(finished)
        except BaseException:
            self.close()  # what was polled is delivered again
            raise
        return len(messages)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Unavailable):
                consumer.close()

    def _has_work(self) -> bool:
        """Whether any bucket has rules, or has records from when it had."""
        return any(self._tables.scan(prefix, limit=1) for prefix in (REPLICATION, RECORDS))

    def _taken_in(self, consumer: Consumer, messages: list[Message]) -> list[Message]:
        """Gives those that are finished. Others are put off, since their source does not answer now."""
        batch = EventBatch(self._tables, self._topics, now=self._now())
        put_off: list[Message] = []
        finished: list[Message] = []
        self._rules.begin()
        self._tagged.begin()
        for message in messages:
            found = _BUCKET.search(message.value)
            try:
                if found is not None and self._concerns(found[1].decode(errors="replace")):
                    self._add(batch, Event.from_bytes(message.value))
            except InvalidInput as error:
                logger.error("a record of the metadata log is left out: %s", error)
            except SourceAway as error:
                if message.attempt < _MOST_ATTEMPTS:
                    put_off.append(message)
                    continue
                logger.warning("whether a tagged version is to be replicated is left to a backfill: %s", error)
            finished.append(message)
        batch.write()
        for message in put_off:
            consumer.retry_later(message, not_before=time.time() + _AWAY_SECONDS)
        return finished

    def _concerns(self, bucket_uid: str) -> bool:
        return self._rules.of_bucket(bucket_uid) is not None or self._rules.has_records(bucket_uid)

    def _add(self, batch: EventBatch, event: Event) -> None:
        kind = event.operation
        if kind in _OF_VERSIONS and event.version_id not in ("", NULL_VERSION):
            rules = self._rules.of_bucket(event.bucket_uid)
            if rules is None:
                return
            if event.is_replica:
                batch.add_version(event, {})
                return
            targets = rules.targets(
                event.key, event.tags, is_marker=kind is EventKind.DELETE_MARKER, written_at=event.ts_ns / 1e9
            )
            if targets:
                batch.add_version(event, targets)
        elif kind is EventKind.TAGGING:
            rules = self._rules.of_bucket(event.bucket_uid)
            if rules is not None:
                self._add_tagging(batch, event, rules)
        elif kind is EventKind.DELETE:
            batch.add_deletion(event)
        elif kind is EventKind.BUCKET_DELETED:
            batch.add_bucket_deletion(event)

    def _add_tagging(self, batch: EventBatch, event: Event, rules: ReplicationRules) -> None:
        record = self._tagged.find(event, rules, batch.is_known, now=self._now())
        if record is not None:
            batch.add_record(record)
        else:
            batch.add_tagging(event)
