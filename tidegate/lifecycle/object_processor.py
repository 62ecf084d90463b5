"""The object processor: consumes object tasks, has them carried out, and leaves an audit record for each.

A task is acknowledged after its record is on stable storage. One that comes again after a crash is found in the trail,
and only acknowledged; or, if it is not there, carried out again, which its identity makes harmless.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event as Flag
from typing import NamedTuple

from tidegate import metrics
from tidegate.core.errors import InvalidInput, NotFound, Unavailable
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.lifecycle.acting import Actor, Assignment, Result, batches
from tidegate.lifecycle.audit_trail import AuditTrail
from tidegate.lifecycle.bucket_list import existing
from tidegate.lifecycle.rate import RateLimit, Workers
from tidegate.lifecycle.stores import Stores
from tidegate.lifecycle.topics import OBJECT_GROUP
from tidegate.lifecycle.undertakings import Undertakings
from tidegate.ports import Consumer, Message, Tables, Topics

# Few and soon: what waits for a retry is a backlog, and no pass starts before it is gone.
ATTEMPTS = 3
_POSTPONED_SECONDS = (5.0, 15.0)
_SICK_SECONDS = 10.0
_BATCH = 4000
_WAIT_SECONDS = 1.0
_RENEWAL_SECONDS = 10.0
# A consumer must not be silent for longer than its lease: no more is taken than can be done by then.
_PORTION_SECONDS = 2.0

logger = logging.getLogger(__name__)


class _Item(NamedTuple):
    message: Message
    assignment: Assignment

    @property
    def task(self) -> ObjectTask:
        return self.assignment.task


class ObjectProcessor:
    def __init__(
        self, tables: Tables, topics: Topics, stores: Stores, *, limit: RateLimit, threads: int, stop: Flag
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._stores = stores
        self._limit = limit
        self._stop = stop
        self._trail = AuditTrail(topics)
        self._workers = Workers(tables)
        self._undertakings = Undertakings(tables, topics, consumed=OBJECT_TASKS_TOPIC, appended=[AUDIT_TOPIC])
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="lifecycle-delete")
        self._consumer: Consumer | None = None
        self._renewed_at = 0.0
        self._sick_until: dict[str, float] = {}

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Finishes one batch of tasks and says how many there were."""
        if time.monotonic() >= self._renewed_at + _RENEWAL_SECONDS:
            self._renewed_at = time.monotonic()
            self._limit.share(self._workers.renew())
        if self._consumer is None:
            self._consumer = self._topics.consumer(OBJECT_TASKS_TOPIC, OBJECT_GROUP)
        messages = self._consumer.poll(self._limit.portion(_PORTION_SECONDS, _BATCH), wait_seconds)
        try:
            if messages:
                self._process(self._consumer, messages)
        except BaseException:
            self._leave()  # what was polled is delivered again, to us or to another
            raise
        return len(messages)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._workers.leave()
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
        recollection = self._undertakings.begin([message for message, _ in tasks])
        repeated = {_origin(message) for message in recollection.messages}
        recorded: set[str] = set()
        if repeated:
            found = self._trail.since(recollection.since[AUDIT_TOPIC])
            recorded = {record.origin for record in found if record.origin in repeated}
        items = [
            _Item(message, Assignment(task, message.attempt > 1 or _origin(message) in repeated))
            for message, task in tasks
            if _origin(message) not in recorded
        ]
        finished = self._finish(consumer, items)
        consumer.acknowledge([message for message, _ in tasks if _origin(message) in recorded] + finished)
        if not self._stop.is_set():
            self._undertakings.end([message for message, _ in tasks])

    def _finish(self, consumer: Consumer, items: list[_Item]) -> list[Message]:
        """Carries the tasks out; those returned can be acknowledged."""
        done: list[tuple[_Item, Result]] = []
        for item, result in self._carried_out(items):
            if result.outcome is Outcome.RETRY_LATER and item.message.attempt < ATTEMPTS:
                delay = _POSTPONED_SECONDS[item.message.attempt - 1]
                consumer.retry_later(item.message, not_before=time.time() + delay)
                _count(item.task, result)
            else:
                done.append((item, result))
        self._record(done)
        return [item.message for item, _ in done]

    def _record(self, done: list[tuple[_Item, Result]]) -> None:
        if not done:
            return
        at_ns = time.time_ns()
        self._trail.append(
            [
                AuditRecord(at_ns, item.task, result.outcome, result.reason, self._workers.name, _origin(item.message))
                for item, result in done
            ]
        )
        for item, result in done:
            _count(item.task, result)
        unsettled = [(item.task, result) for item, result in done if not result.outcome.is_settled]
        for task, result in unsettled[:1]:
            logger.warning(
                "%d tasks were not carried out, such as %s of %s in bucket %s: %s: %s; the next pass tries again",
                len(unsettled), task.effect, task.key, task.bucket, result.outcome, result.reason,
            )  # fmt: skip

    def _carried_out(self, items: list[_Item]) -> list[tuple[_Item, Result]]:
        """Bucket by bucket, in parallel; without those that were left when the process was told to stop."""
        buckets: dict[tuple[str, str], list[_Item]] = {}
        for item in items:
            buckets.setdefault((item.task.bucket, item.task.bucket_uid), []).append(item)
        work = []
        for (name, uid), group in buckets.items():
            by_assignment = {id(item.assignment): item for item in group}
            for batch in batches([item.assignment for item in group], self._limit.portion(1.0, _BATCH)):
                part = [by_assignment[id(assignment)] for assignment in batch]
                work.append((part, self._executor.submit(self._act, name, uid, batch)))
        results = []
        for part, future in work:
            for item, result in zip(part, future.result(), strict=False):
                results.append((item, result))
        return results

    def _act(self, name: str, uid: str, batch: list[Assignment]) -> list[Result]:
        bucket = existing(self._tables, name, uid)
        if bucket is None:
            return [Result(Outcome.NOOP_RESOLVED, "the bucket is gone")] * len(batch)
        if self._sick_until.get(bucket.pool, 0.0) > time.monotonic():
            return [Result(Outcome.RETRY_LATER, f"pool {bucket.pool} did not answer")] * len(batch)
        wait = self._limit.take(len(batch))
        metrics.LIFECYCLE_LIMITER_WAIT.observe(wait)
        if self._stop.wait(wait) if wait else self._stop.is_set():
            return []
        try:
            store, keeps_null_markers = self._stores.of_pool(bucket.pool), self._stores.keeps_null_markers(bucket.pool)
        except NotFound as error:
            return [Result(Outcome.NOOP_RESOLVED, str(error))] * len(batch)
        except Unavailable as error:
            return [Result(Outcome.RETRY_LATER, str(error))] * len(batch)
        actor = Actor(
            store,
            name,
            now_ns=time.time_ns(),
            pause=lambda seconds: not self._stop.wait(seconds),
            keeps_null_markers=keeps_null_markers,
        )
        results = actor.act(batch)
        if any(result.outcome is Outcome.RETRY_LATER for result in results):
            self._sick_until[bucket.pool] = time.monotonic() + _SICK_SECONDS
        return results


def _parsed(consumer: Consumer, messages: Sequence[Message]) -> list[tuple[Message, ObjectTask]]:
    tasks = []
    for message in messages:
        try:
            tasks.append((message, ObjectTask.from_bytes(message.value)))
        except InvalidInput as error:
            logger.error("an object task cannot be read: %s", error)
            consumer.dead_letter(message, str(error))
    return tasks


def _origin(message: Message) -> str:
    return f"{message.topic}/{message.partition}/{message.offset}"


def _count(task: ObjectTask, result: Result) -> None:
    metrics.LIFECYCLE_DISPATCH.labels(task.bucket_uid, task.kind.value, result.outcome.value).inc()
