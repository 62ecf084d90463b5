"""The bucket processor: consumes bucket tasks, lists a stretch of the bucket, and publishes what is due there.

What is left of the bucket is published first, so that another processor can go on while this one judges. Published
tasks are not published again when a bucket task comes a second time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.errors import InvalidInput, NotFound, Refused, Unavailable
from tidegate.core.lifecycle.assess import Terms
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC, BucketTask
from tidegate.lifecycle.bucket_list import active_rules, existing
from tidegate.lifecycle.judging import Judge
from tidegate.lifecycle.listing import Listing, digest
from tidegate.lifecycle.stores import Stores
from tidegate.lifecycle.topics import BUCKET_GROUP
from tidegate.lifecycle.undertakings import Recollection, Undertakings
from tidegate.ports import Consumer, Message, Tables, Topics
from tidegate.settings import LifecycleSettings

# Few and soon: what waits for a retry is a backlog, and no pass starts before it is gone.
ATTEMPTS = 3
_POSTPONED_SECONDS = (5.0, 15.0)
_BATCH = 8
_THREADS = 4
_WAIT_SECONDS = 1.0

logger = logging.getLogger(__name__)


class _End(Enum):
    DONE = "done"
    POSTPONED = "postponed"
    GIVEN_UP = "given-up"


class BucketProcessor:
    def __init__(
        self, tables: Tables, topics: Topics, stores: Stores, settings: LifecycleSettings, *, stop: Flag
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._stores = stores
        self._settings = settings
        self._stop = stop
        self._undertakings = Undertakings(
            tables, topics, consumed=BUCKET_TASKS_TOPIC, appended=[BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC]
        )
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="lifecycle-list")
        self._consumer: Consumer | None = None

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Finishes one batch of tasks and says how many there were."""
        if self._consumer is None:
            self._consumer = self._topics.consumer(BUCKET_TASKS_TOPIC, BUCKET_GROUP)
        messages = self._consumer.poll(_BATCH, wait_seconds)
        try:
            if messages:
                self._process(self._consumer, messages)
        except BaseException:
            self._leave()  # what was polled is delivered again, to us or to another
            raise
        return len(messages)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._leave()

    def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Unavailable):
                consumer.close()

    def _process(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        tasks = _parsed(consumer, messages)
        if not tasks:
            return
        published = self._published(self._undertakings.begin([message for message, _ in tasks]))
        work = [
            (message, task, self._executor.submit(self._list, task, message.attempt, published))
            for message, task in tasks
        ]
        for message, task, future in work:
            end = future.result()
            metrics.LIFECYCLE_LISTINGS.labels(task.bucket_uid, end.value).inc()
            if end is _End.POSTPONED:
                delay = _POSTPONED_SECONDS[message.attempt - 1]
                consumer.retry_later(message, not_before=time.time() + delay)
            else:
                consumer.acknowledge([message])
        self._undertakings.end([message for message, _ in tasks])

    def _published(self, recollection: Recollection) -> frozenset[bytes]:
        """Digests of what was published since the tasks were begun for the first time, if they were."""
        digests: set[bytes] = set()
        if recollection.messages:
            for topic in (BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC):
                self._undertakings.appended_since(recollection, topic, lambda value: digests.add(digest(value)))
        return frozenset(digests)

    def _list(self, task: BucketTask, attempt: int, published: frozenset[bytes]) -> _End:
        try:
            self._work(task, published)
        except NotFound as error:
            logger.info("nothing to list any more: %s", error)
        except Refused as error:
            logger.warning("bucket %s cannot be listed, and its rules are not carried out: %s", task.bucket, error)
            return _End.GIVEN_UP
        except Unavailable as error:
            if attempt < ATTEMPTS:
                logger.info("bucket %s will be listed later: %s", task.bucket, error)
                return _End.POSTPONED
            logger.warning("bucket %s could not be listed; the next pass tries again: %s", task.bucket, error)
            return _End.GIVEN_UP
        return _End.DONE

    def _work(self, task: BucketTask, published: frozenset[bytes]) -> None:
        rules = active_rules(self._tables, task.bucket_uid)
        bucket = existing(self._tables, task.bucket, task.bucket_uid)
        if rules is None or bucket is None:
            return
        store, settings = self._stores.of_pool(bucket.pool), self._settings
        terms = Terms(
            versioning=store.versioning(bucket.name),
            day_seconds=settings.day_seconds,
            classes=settings.storage_classes,
            transitions_act=False,
        )
        judge = Judge(store, bucket.name, rules, terms, store.locks_objects(bucket.name), task.now_ns)
        listing = Listing(
            self._topics,
            judge,
            task,
            limit=settings.listing_limit,
            published=published,
            keeps_null_markers=self._stores.keeps_null_markers(bucket.pool),
        )
        listing.run()


def _parsed(consumer: Consumer, messages: Sequence[Message]) -> list[tuple[Message, BucketTask]]:
    tasks = []
    for message in messages:
        try:
            tasks.append((message, BucketTask.from_bytes(message.value)))
        except InvalidInput as error:
            logger.error("a bucket task cannot be read: %s", error)
            consumer.dead_letter(message, str(error))
    return tasks
