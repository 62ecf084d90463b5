"""The object processor: consumes object tasks, has them carried out, and leaves an audit record for each.

A task is acknowledged after its record is on stable storage. One that comes again after a crash is found in the trail,
and only acknowledged; or, if it is not there, carried out again, which its identity makes harmless.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from threading import Event as Flag
from typing import NamedTuple

from tidegate import metrics
from tidegate.core.errors import NotFound, Unavailable
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.bucket_actions import Actor, Assignment, Result, batches
from tidegate.lifecycle.acting.rate import RateLimit, Workers
from tidegate.lifecycle.acting.rechecking import BucketRecheck, Lookers
from tidegate.lifecycle.acting.redelivery import Redelivery
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.acting.task_consumer import TaskConsumer
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.lifecycle.topics import OBJECT_GROUP
from tidegate.ports import Consumer, Message, Store, Tables, Topics
from tidegate.settings import LifecycleSettings

_SICK_SECONDS = 10.0
_BATCH = 4000
_RENEWAL_SECONDS = 10.0
_LEAST_PER_REQUEST = 100
# A consumer must not be silent for longer than its lease: no more is taken than can be done well before.
_PORTION_SECONDS = 1.5
_PORTION_OF_LEASE = 0.25
_FIRST_BATCH = 500
# Requests for tags or versions at the same time, for each that deletes.
_LOOKERS = 4

logger = logging.getLogger(__name__)


class _Item(NamedTuple):
    message: Message
    assignment: Assignment

    @property
    def task(self) -> ObjectTask:
        return self.assignment.task


class ObjectProcessor(TaskConsumer[ObjectTask]):
    """`executor` has so many `threads` and is shared with other processors: while one keeps its books, all threads act
    for the others. Who made it shuts it down."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        settings: LifecycleSettings,
        *,
        limit: RateLimit,
        executor: Executor,
        threads: int,
        lease_seconds: float,
        stop: Flag,
    ) -> None:
        super().__init__(topics, OBJECT_TASKS_TOPIC, OBJECT_GROUP, read=ObjectTask.from_bytes, stop=stop)
        self._tables = tables
        self._stores = stores
        self._settings = settings
        self._limit = limit
        self._threads = threads
        self._lease_seconds = lease_seconds
        self._trail = AuditTrail(topics)
        self._workers = Workers(tables)
        self._undertakings = Redelivery(tables, topics, consumed=OBJECT_TASKS_TOPIC, appended=[AUDIT_TOPIC])
        self._executor = executor
        self._lookers = Lookers(_LOOKERS)
        self._stops = StopReader(tables)
        self._renewed_at = 0.0
        self._bearable = _FIRST_BATCH
        self._sick_until: dict[str, float] = {}

    def _most(self) -> int:
        if time.monotonic() >= self._renewed_at + _RENEWAL_SECONDS:
            self._renewed_at = time.monotonic()
            self._limit.share(self._workers.renew())
        seconds = min(_PORTION_SECONDS, _PORTION_OF_LEASE * self._lease_seconds)
        return self._limit.portion(seconds, self._bearable)

    def close(self) -> None:
        self._workers.leave()
        self._lookers.close()
        super().close()

    def _process(self, consumer: Consumer, tasks: Sequence[tuple[Message, ObjectTask]]) -> None:
        begun = time.monotonic()
        prior = self._undertakings.begin([message for message, _ in tasks])
        repeated = {_origin(message) for message in prior.messages}
        recorded: set[str] = set()
        if repeated:
            found = self._trail.since(prior.since[AUDIT_TOPIC])
            recorded = {record.origin for record in found if record.origin in repeated}
        items = [
            _Item(message, Assignment(task, message.attempt > 1 or _origin(message) in repeated))
            for message, task in tasks
            if _origin(message) not in recorded
        ]
        started = time.monotonic()
        finished = self._finish(consumer, items)
        self._bearable = _bearable(len(items), time.monotonic() - started)
        consumer.acknowledge([message for message, _ in tasks if _origin(message) in recorded] + finished)
        # Once the lease was lost, what was acknowledged comes again all the same, and must be remembered.
        if not self._stop.is_set() and time.monotonic() - begun < self._lease_seconds:
            self._undertakings.end([message for message, _ in tasks])

    def _finish(self, consumer: Consumer, items: list[_Item]) -> list[Message]:
        """Carries the tasks out; those returned can be acknowledged."""
        done, live = self._sorted_out(items)
        for item, result in self._carried_out(live):
            if result.outcome is Outcome.RETRY_LATER and self._may_wait(item.message):
                self._postpone(consumer, item.message)
                _count([(item, result)])
            else:
                done.append((item, result))
        self._record(done)
        return [item.message for item, _ in done]

    def _sorted_out(self, items: list[_Item]) -> tuple[list[tuple[_Item, Result]], list[_Item]]:
        """Those that are dropped because lifecycle is or was stopped, and the others."""
        stops = self._stops.current()
        dropped: list[tuple[_Item, Result]] = []
        live: list[_Item] = []
        for item in items:
            message = item.message
            why = stops.why_void(item.task.bucket_uid, message.topic, message.partition, message.offset)
            if why:
                dropped.append((item, Result(Outcome.STOPPED, why)))
            else:
                live.append(item)
        return dropped, live

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
        _count(done)
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
            group.sort(key=_place)  # neighbours in one request are looked at together
            by_assignment = {id(item.assignment): item for item in group}
            for batch in batches([item.assignment for item in group], self._most_per_request(len(group))):
                part = [by_assignment[id(assignment)] for assignment in batch]
                work.append((part, self._executor.submit(self._act, name, uid, batch)))
        results = []
        for part, future in work:
            for item, result in zip(part, future.result(), strict=False):
                results.append((item, result))
        return results

    def _most_per_request(self, tasks: int) -> int:
        """All threads are to have a part of a bucket's tasks, though none a tiny one."""
        return min(self._limit.portion(1.0, _BATCH), max(-(-tasks // self._threads), _LEAST_PER_REQUEST))

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
            recheck=self._recheck(bucket, store),
        )
        results = actor.act(batch)
        if any(result.outcome is Outcome.RETRY_LATER for result in results):
            self._sick_until[bucket.pool] = time.monotonic() + _SICK_SECONDS
        return results

    def _recheck(self, bucket: Bucket, store: Store) -> BucketRecheck:
        return BucketRecheck(
            self._tables,
            store,
            bucket.name,
            bucket.uid,
            day_seconds=day_seconds(self._tables, self._settings, bucket.pool),
            now_ns=time.time_ns,
            why_stopped=lambda: self._stops.current().why_stopped(bucket.uid),
            lookers=self._lookers,
        )


def _bearable(tasks: int, seconds: float) -> int:
    """How many tasks can be done in good time, going by how long the last ones took; never so few that none fill a
    request, nor so many that they would take up much memory."""
    return min(max(int(tasks / max(seconds, 0.001) * _PORTION_SECONDS), _LEAST_PER_REQUEST), _BATCH)


def _place(item: _Item) -> tuple[bytes, str]:
    return item.task.key.encode(), item.task.version_id


def _origin(message: Message) -> str:
    return f"{message.topic}/{message.partition}/{message.offset}"


def _count(done: Sequence[tuple[_Item, Result]]) -> None:
    kinds = Counter((item.task.bucket_uid, item.task.kind.value, result.outcome.value) for item, result in done)
    for labels, count in kinds.items():
        metrics.LIFECYCLE_DISPATCH.labels(*labels).inc(count)
