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
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_context import bucket_context
from tidegate.lifecycle.buckets.bucket_list import active_rules, existing
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.lifecycle.passes.bucket_listing import Listing, digest
from tidegate.lifecycle.passes.listing_evaluator import ListingEvaluator
from tidegate.lifecycle.topics import BUCKET_GROUP, RETRIES
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, Answer, Delivery, Disposition
from tidegate.workers.worker import Worker

_BATCH = 8
_THREADS = 4
_APPENDS = (BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC)

logger = logging.getLogger(__name__)


class _End(Enum):
    DONE = "done"
    POSTPONED = "postponed"
    GIVEN_UP = "given-up"
    STOPPED = "stopped"


_AGAIN = Answer(Disposition.RETRY, "its store did not answer")


class BucketProcessor:
    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        settings: LifecycleSettings,
        *,
        lease_seconds: float,
        stop: Flag,
    ) -> None:
        self._worker = Worker(
            topics,
            tables,
            topic=BUCKET_TASKS_TOPIC,
            group=BUCKET_GROUP,
            decode=BucketTask.from_bytes,
            handle_batch=self._process,
            retries=RETRIES,
            appends=_APPENDS,
            lease_seconds=lease_seconds,
            size=BatchSize(_BATCH, least=_BATCH, most=_BATCH, lease_seconds=lease_seconds),
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever
        self._topics = topics
        self._tables = tables
        self._stores = stores
        self._settings = settings
        self._stops = StopReader(tables)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="lifecycle-list")

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._worker.close()

    def _process(self, deliveries: Sequence[Delivery[BucketTask]]) -> list[Answer]:
        prior = next((delivery for delivery in deliveries if delivery.prior is not None), None)
        # What was published since the tasks were begun for the first time, if they were.
        published = frozenset(digest(value) for topic in _APPENDS if prior for value in prior.appended_before(topic))
        ends = list(self._executor.map(lambda delivery: self._listed(delivery, published), deliveries))
        for delivery, end in zip(deliveries, ends, strict=True):
            metrics.LIFECYCLE_LISTINGS.labels(delivery.task.bucket_uid, end.value).inc()
        return [_AGAIN if end is _End.POSTPONED else DONE for end in ends]

    def _listed(self, delivery: Delivery[BucketTask], published: frozenset[bytes]) -> _End:
        task, message = delivery.task, delivery.message
        why = self._stops.current().why_void(task.bucket_uid, message.topic, message.partition, message.offset)
        if why:
            logger.info("bucket %s is not listed for the pass %s: %s", task.bucket, task.pass_id, why)
            return _End.STOPPED
        return self._list(task, RETRIES.may_retry(message.attempt), published)

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
