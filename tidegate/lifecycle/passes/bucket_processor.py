"""The bucket processor: consumes bucket tasks, lists a stretch of the bucket, and publishes what is due there.

What is left of the bucket is published first, so that another processor can go on while this one judges. Published
tasks are not published again when a bucket task comes a second time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.errors import NotFound, Refused, Unavailable
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC, BucketTask
from tidegate.lifecycle.acting.redelivery import PriorAttempts, Redelivery
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.acting.task_consumer import TaskConsumer
from tidegate.lifecycle.buckets.bucket_context import bucket_context
from tidegate.lifecycle.buckets.bucket_list import active_rules, existing
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.lifecycle.passes.bucket_listing import Listing, digest
from tidegate.lifecycle.passes.listing_evaluator import ListingEvaluator
from tidegate.lifecycle.topics import BUCKET_GROUP
from tidegate.ports import Consumer, Message, Tables, Topics
from tidegate.settings import LifecycleSettings

_BATCH = 8
_THREADS = 4

logger = logging.getLogger(__name__)


class _End(Enum):
    DONE = "done"
    POSTPONED = "postponed"
    GIVEN_UP = "given-up"
    STOPPED = "stopped"


class BucketProcessor(TaskConsumer[BucketTask]):
    def __init__(
        self, tables: Tables, topics: Topics, stores: Stores, settings: LifecycleSettings, *, stop: Flag
    ) -> None:
        super().__init__(topics, BUCKET_TASKS_TOPIC, BUCKET_GROUP, read=BucketTask.from_bytes, stop=stop)
        self._tables = tables
        self._stores = stores
        self._settings = settings
        self._undertakings = Redelivery(
            tables, topics, consumed=BUCKET_TASKS_TOPIC, appended=[BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC]
        )
        self._stops = StopReader(tables)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="lifecycle-list")

    def _most(self) -> int:
        return _BATCH

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        super().close()

    def _process(self, consumer: Consumer, tasks: Sequence[tuple[Message, BucketTask]]) -> None:
        published = self._published(self._undertakings.begin([message for message, _ in tasks]))
        work = [
            (message, task, self._executor.submit(self._listed, message, task, published)) for message, task in tasks
        ]
        for message, task, future in work:
            end = future.result()
            metrics.LIFECYCLE_LISTINGS.labels(task.bucket_uid, end.value).inc()
            if end is _End.POSTPONED:
                self._postpone(consumer, message)
            else:
                consumer.acknowledge([message])
        self._undertakings.end([message for message, _ in tasks])

    def _published(self, prior: PriorAttempts) -> frozenset[bytes]:
        """Digests of what was published since the tasks were begun for the first time, if they were."""
        digests: set[bytes] = set()
        if prior.messages:
            for topic in (BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC):
                self._undertakings.appended_since(prior, topic, lambda value: digests.add(digest(value)))
        return frozenset(digests)

    def _listed(self, message: Message, task: BucketTask, published: frozenset[bytes]) -> _End:
        why = self._stops.current().why_void(task.bucket_uid, message.topic, message.partition, message.offset)
        if why:
            logger.info("bucket %s is not listed for the pass %s: %s", task.bucket, task.pass_id, why)
            return _End.STOPPED
        return self._list(task, self._may_wait(message), published)

    def _list(self, task: BucketTask, may_wait: bool, published: frozenset[bytes]) -> _End:
        try:
            self._work(task, published)
        except NotFound as error:
            logger.info("nothing to list any more: %s", error)
        except Refused as error:
            logger.warning("bucket %s cannot be listed, and its rules are not carried out: %s", task.bucket, error)
            return _End.GIVEN_UP
        except Unavailable as error:
            if may_wait:
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
        day = day_seconds(self._tables, settings, bucket.pool)
        keeps_null_markers = self._stores.keeps_null_markers(bucket.pool)
        terms = bucket_context(settings, store.versioning(bucket.name), day, keeps_null_markers=keeps_null_markers)
        judge = ListingEvaluator(store, bucket.name, rules, terms, store.locks_objects(bucket.name), task.now_ns)
        Listing(self._topics, judge, task, limit=settings.listing_limit, published=published).run()
