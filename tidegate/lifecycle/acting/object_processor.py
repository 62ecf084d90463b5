"""The object processor: consumes object tasks, has them carried out, and leaves an audit record for each.

The statuses of copies that transitions need come in the same topic. They are what is left to do of a transition: the
version is placed where its copy lies.

A task is acknowledged after its record is on stable storage. One that comes again after a crash is found in the trail,
and only acknowledged; or, if it is not there, carried out again, which its identity makes harmless.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.copy_tasks import COPY_ACTION, CopyResult, CopyStatus, action_of
from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.routes import ROUTES
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.lifecycle.acting.assignments import Assignment, Result
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.dispatcher import Dispatcher
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.acting.transitions import Transitions
from tidegate.lifecycle.topics import OBJECT_GROUP, RETRIES
from tidegate.movement.placer import Placer
from tidegate.movement.trash import Trash
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.parallel import answered_at_once
from tidegate.workers.rate import InstallationRate
from tidegate.workers.worker import Worker

_FIRST_BATCH, _LEAST, _MOST = 500, 100, 4000

logger = logging.getLogger(__name__)

_Delivery = Delivery[ObjectTask | CopyStatus]
_Deliveries = Sequence[_Delivery]
_Ended = tuple[_Delivery, Result]


class ObjectProcessor:
    """`executor` has so many `threads` and is shared with other processors, as the `rate` is. `hold_failed`: as in
    `Dispatcher`."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        settings: LifecycleSettings,
        placer: Placer,
        trash: Trash | None = None,
        *,
        rate: InstallationRate,
        executor: Executor,
        threads: int,
        lease_seconds: float,
        stop: Flag,
        hold_failed: bool = False,
    ) -> None:
        self._trail = AuditTrail(topics)
        self._stops = StopReader(tables)
        self._rate = rate
        self._dispatcher = Dispatcher(
            tables,
            stores,
            settings,
            trash,
            rate=rate,
            stops=self._stops,
            executor=executor,
            threads=threads,
            stop=stop,
            hold_failed=hold_failed,
        )
        self._executor = executor
        self._stop = stop
        self._busy = ThreadPoolExecutor(1, thread_name_prefix="object-processor")
        self._beat_seconds = min(lease_seconds / 4, 1.0)
        self._handed_over = HandedOver(tables)
        self._transitions = Transitions(tables, stores, placer, self._dispatcher.recheck)
        self.size = BatchSize(_FIRST_BATCH, least=_LEAST, most=_MOST, lease_seconds=lease_seconds)
        self._worker = Worker(
            topics,
            tables,
            topic=OBJECT_TASKS_TOPIC,
            group=OBJECT_GROUP,
            decode=_decoded,
            handle_batch=self._process_busily,
            retries=RETRIES,
            rate=rate,
            appends=[AUDIT_TOPIC],
            lease_seconds=lease_seconds,
            size=self.size,
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._busy.shutdown()
        self._dispatcher.close()
        self._worker.close()

    def _process_busily(self, deliveries: _Deliveries) -> Iterator[Answer]:
        """What is deleted may have to be kept before, which can take longer than the lease is long."""
        return answered_at_once(self._busy, partial(self._process, deliveries), beat_seconds=self._beat_seconds)

    def _process(self, deliveries: _Deliveries) -> list[Answer]:
        ended, live = self._sorted_out(deliveries)
        postponed: list[_Ended] = []
        answers = [DONE] * len(deliveries)
        for number, result in self._results(deliveries, live):
            delivery = deliveries[number]
            if result is None:
                answers[number] = LEFT
            elif result.outcome is Outcome.RETRY_LATER and _may_retry(delivery):
                answers[number] = Answer(Disposition.RETRY, result.reason)
                postponed.append((delivery, result))
            else:  # the last try ends a task however it went: the next pass plans it anew
                ended.append((delivery, result))
        self._record(ended)
        _count(ended + postponed)
        return answers

    def _results(self, deliveries: _Deliveries, live: Sequence[int]) -> Iterator[tuple[int, Result | None]]:
        """Of those that are to be carried out; None for those that were left when the process was told to stop."""
        statuses, assignments = {}, {}
        for number in live:
            delivery = deliveries[number]
            if isinstance(delivery.task, CopyStatus):
                statuses[number] = self._executor.submit(self._settle, delivery.task, is_last=not _may_retry(delivery))
            else:
                assignments[number] = Assignment(delivery.task, delivery.is_repeated)
        yield from zip(assignments, self._dispatcher.results(list(assignments.values())), strict=True)
        for number, future in statuses.items():
            yield number, future.result()

    def _settle(self, status: CopyStatus, *, is_last: bool) -> Result | None:
        return None if self._stop.is_set() else self._transitions.settle(status, is_last=is_last)

    def _sorted_out(self, deliveries: _Deliveries) -> tuple[list[_Ended], list[int]]:
        """Those that are dropped because lifecycle is or was stopped, and where those stand that are to be carried out:
        all that an earlier attempt did not finish."""
        recorded = _recorded(deliveries)
        stops = self._stops.current()
        dropped: list[_Ended] = []
        live = []
        for number, delivery in enumerate(deliveries):
            if recorded and delivery.origin in recorded:
                continue
            at = delivery.message
            uid = _task_of(delivery).bucket_uid
            why = stops.why_void(uid, at.topic, at.partition, at.offset) if stops.of else ""
            if why:
                if isinstance(delivery.task, CopyStatus):
                    self._transitions.drop(delivery.task, why)
                dropped.append((delivery, Result(Outcome.STOPPED, why)))
            else:
                live.append(number)
        return dropped, live

    def _record(self, ended: list[_Ended]) -> None:
        if not ended:
            return
        at_ns, worker = time.time_ns(), self._rate.member
        self._trail.append(
            [
                AuditRecord(at_ns, _task_of(delivery), result.outcome, result.reason, worker, delivery.origin)
                for delivery, result in ended
            ]
        )
        for delivery, _ in ended:
            if isinstance(delivery.task, CopyStatus):
                self._handed_over.end(_task_of(delivery))
        unsettled = [(_task_of(delivery), result) for delivery, result in ended if not result.outcome.is_settled]
        for task, result in unsettled[:1]:
            logger.warning(
                "%d tasks were not carried out, such as %s of %s in bucket %s: %s: %s; the next pass tries again",
                len(unsettled), task.effect, task.key, task.bucket, result.outcome, result.reason,
            )  # fmt: skip


def _decoded(value: bytes) -> ObjectTask | CopyStatus:
    if action_of(value) != COPY_ACTION:
        task = ObjectTask.from_bytes(value)
        if ROUTES[task.effect].topic != OBJECT_TASKS_TOPIC:
            raise InvalidInput(f"{task.effect} is carried out by the consumers of {ROUTES[task.effect].topic}")
        return task
    status = CopyStatus.from_bytes(value)
    if status.task.object_task is None:
        raise InvalidInput("a status of a copy that lifecycle did not ask for")
    return status


def _task_of(delivery: _Delivery) -> ObjectTask:
    """What was planned."""
    if not isinstance(delivery.task, CopyStatus):
        return delivery.task
    assert delivery.task.task.object_task is not None
    return delivery.task.task.object_task


def _may_retry(delivery: _Delivery) -> bool:
    """A copy that failed is not made by asking again."""
    has_failed = isinstance(delivery.task, CopyStatus) and delivery.task.result is CopyResult.FAILED
    return not has_failed and RETRIES.may_retry(delivery.attempt)


def _recorded(deliveries: _Deliveries) -> set[str]:
    """The origins of those that an earlier attempt has finished but for acknowledging them."""
    again = {delivery.origin: delivery for delivery in deliveries if delivery.prior is not None}
    if not again:
        return set()
    appended = next(iter(again.values())).appended_before(AUDIT_TOPIC)
    return {record.origin for record in map(AuditRecord.from_json, appended) if record.origin in again}


def _count(ended: Sequence[_Ended]) -> None:
    kinds = Counter(
        (task.bucket_uid, task.kind.value, result.outcome.value)
        for delivery, result in ended
        for task in [_task_of(delivery)]
    )
    for labels, count in kinds.items():
        metrics.LIFECYCLE_DISPATCH.labels(*labels).inc(count)
