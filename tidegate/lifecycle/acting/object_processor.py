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

from tidegate import metrics
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.bucket_actions import Assignment, Result
from tidegate.lifecycle.acting.dispatcher import Dispatcher
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.topics import OBJECT_GROUP, RETRIES
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.rate import InstallationRate
from tidegate.workers.worker import Worker

_FIRST_BATCH, _LEAST, _MOST = 500, 100, 4000

logger = logging.getLogger(__name__)

_Deliveries = Sequence[Delivery[ObjectTask]]
_Ended = tuple[Delivery[ObjectTask], Result]


class ObjectProcessor:
    """`executor` has so many `threads` and is shared with other processors, as the `rate` is."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        settings: LifecycleSettings,
        *,
        rate: InstallationRate,
        executor: Executor,
        threads: int,
        lease_seconds: float,
        stop: Flag,
    ) -> None:
        self._trail = AuditTrail(topics)
        self._stops = StopReader(tables)
        self._rate = rate
        self._dispatcher = Dispatcher(
            tables, stores, settings, rate=rate, stops=self._stops, executor=executor, threads=threads, stop=stop
        )
        self.size = BatchSize(_FIRST_BATCH, least=_LEAST, most=_MOST, lease_seconds=lease_seconds)
        self._worker = Worker(
            topics,
            tables,
            topic=OBJECT_TASKS_TOPIC,
            group=OBJECT_GROUP,
            decode=ObjectTask.from_bytes,
            handle_batch=self._process,
            retries=RETRIES,
            rate=rate,
            appends=[AUDIT_TOPIC],
            lease_seconds=lease_seconds,
            size=self.size,
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._dispatcher.close()
        self._worker.close()

    def _process(self, deliveries: _Deliveries) -> list[Answer]:
        ended, live = self._sorted_out(deliveries)
        postponed: list[_Ended] = []
        answers = [DONE] * len(deliveries)
        assignments = [Assignment(deliveries[number].task, deliveries[number].is_repeated) for number in live]
        for number, result in zip(live, self._dispatcher.results(assignments), strict=True):
            delivery = deliveries[number]
            if result is None:
                answers[number] = LEFT
            elif result.outcome is Outcome.RETRY_LATER and RETRIES.may_retry(delivery.attempt):
                answers[number] = Answer(Disposition.RETRY, result.reason)
                postponed.append((delivery, result))
            else:  # the last try ends a task however it went: the next pass plans it anew
                ended.append((delivery, result))
        self._record(ended)
        _count(ended + postponed)
        return answers

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
            why = stops.why_void(delivery.task.bucket_uid, at.topic, at.partition, at.offset) if stops.of else ""
            if why:
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
                AuditRecord(at_ns, delivery.task, result.outcome, result.reason, worker, delivery.origin)
                for delivery, result in ended
            ]
        )
        unsettled = [(delivery.task, result) for delivery, result in ended if not result.outcome.is_settled]
        for task, result in unsettled[:1]:
            logger.warning(
                "%d tasks were not carried out, such as %s of %s in bucket %s: %s: %s; the next pass tries again",
                len(unsettled), task.effect, task.key, task.bucket, result.outcome, result.reason,
            )  # fmt: skip


def _recorded(deliveries: _Deliveries) -> set[str]:
    """The origins of those that an earlier attempt has finished but for acknowledging them."""
    again = {delivery.origin: delivery for delivery in deliveries if delivery.prior is not None}
    if not again:
        return set()
    appended = next(iter(again.values())).appended_before(AUDIT_TOPIC)
    return {record.origin for record in map(AuditRecord.from_json, appended) if record.origin in again}


def _count(ended: Sequence[_Ended]) -> None:
    kinds = Counter(
        (delivery.task.bucket_uid, delivery.task.kind.value, result.outcome.value) for delivery, result in ended
    )
    for labels, count in kinds.items():
        metrics.LIFECYCLE_DISPATCH.labels(*labels).inc(count)
