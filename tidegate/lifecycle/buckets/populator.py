"""The queue populator: reads the metadata log and keeps the list of buckets with rules to carry out.

An event only says that something about a bucket changed. What holds is read from the tables, so that events that come
twice or late do no harm. Buckets that were re-created under an old name have another uid, and so another entry.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Event as Flag

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.cursors import CURSORS
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.records import BucketState
from tidegate.lifecycle.buckets.bucket_list import BucketList, ListedBucket, existing, reconcile
from tidegate.lifecycle.topics import POPULATOR_GROUP
from tidegate.ports import Consumer, Message, Tables, Topics

_BATCH = 1000
_WAIT_SECONDS = 1.0
# Events of objects, which are nearly all, are told apart without being parsed.
_OF_BUCKETS = b'"operation":"bucket-'

logger = logging.getLogger(__name__)


class QueuePopulator:
    def __init__(self, tables: Tables, topics: Topics, *, log_topic: str) -> None:
        self._tables = tables
        self._topics = topics
        self._log_topic = log_topic
        self._list = BucketList(tables)
        self._consumer: Consumer | None = None

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Takes in one batch of events and says how many there were."""
        if self._consumer is None:
            self._consumer = self._topics.consumer(self._log_topic, POPULATOR_GROUP)
        messages = self._consumer.poll(_BATCH, wait_seconds)
        try:
            for message in messages:
                if _OF_BUCKETS in message.value:
                    self._take_in(message)
            self._consumer.acknowledge(messages)
        except BaseException:
            self.close()  # what was polled is delivered again
            raise
        return len(messages)

    def run_forever(self, stop: Flag) -> None:
        reconcile(self._tables)
        while not stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Unavailable):
                consumer.close()

    def _take_in(self, message: Message) -> None:
        try:
            event = Event.from_bytes(message.value)
        except InvalidInput as error:
            logger.error("a record of the metadata log is left out: %s", error)
            return
        bucket = ListedBucket(event.owner, event.bucket_uid, event.bucket)
        if event.operation is EventKind.BUCKET_DELETED:
            self._forget(bucket)
        elif "lifecycle" in dict(event.attributes) and existing(self._tables, event.bucket, event.bucket_uid):
            self._list.refresh(bucket)

    def _forget(self, bucket: ListedBucket) -> None:
        """With all that lifecycle knows of it: no bucket will have that uid again."""
        self._list.remove(bucket)
        for prefix in (LIFECYCLE, CURSORS, BucketState.PREFIX):
            self._tables.delete(prefix + bucket.uid)
