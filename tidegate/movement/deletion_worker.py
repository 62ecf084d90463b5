"""A worker that carries out pending deletes: what is received, postponed, tried again, given up and recorded."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.deletion_records import (
    DELETION_AUDIT_TOPIC,
    DeletionOutcome,
    DeletionRecord,
    IncompletePending,
    read_pending,
)
from tidegate.core.pending_deletes import DataType, PendingDelete
from tidegate.movement.deletion import Deleter, Result
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.movement.pending_deletes import AWAITING_GRACE
from tidegate.movement.topics import DELETION_GROUP
from tidegate.ports import Tables, Topics
from tidegate.settings import DeletionSettings
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.parallel import answered_at_once
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker import Worker

_FIRST_BATCH, _LEAST, _MOST = 100, 1, 1000
# Whoever sent a pending delete drops the data from its record right after, as a rule within this.
_SOON_SECONDS = 2.0
_DAY_SECONDS = 86_400.0
# How often a message was postponed, which is no failure: `deletion/postponed/ORIGIN`.
_POSTPONED = "deletion/postponed/"
# How many retries there are is decided here: those that were postponed do not count.
_ANY_NUMBER = 1_000_000

logger = logging.getLogger(__name__)

_Task = PendingDelete | IncompletePending
_Ended = tuple[Delivery[_Task], DeletionOutcome, str]


class DeletionWorker:
    """For one thread; `deleter` may be shared. `now` gives the Unix time."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        deleter: Deleter,
        settings: DeletionSettings,
        *,
        lease_seconds: float,
        stop: Flag,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._deleter = deleter
        self._settings = settings
        self._audit = DeletionAudit(topics)
        self._stop = stop
        self._now = now
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._busy = ThreadPoolExecutor(1, thread_name_prefix="deletion")
        self._beat_seconds = min(lease_seconds / 4, 1.0)
        self._worker: Worker[_Task] = Worker(
            topics,
            tables,
            topic=settings.topic,
            group=DELETION_GROUP,
            decode=read_pending,
            handle_batch=self._process_busily,
            retries=RetryPolicy(delays=(settings.reconsume_seconds,), tries=_ANY_NUMBER),
            appends=[DELETION_AUDIT_TOPIC],
            lease_seconds=lease_seconds,
            size=BatchSize(_FIRST_BATCH, least=_LEAST, most=_MOST, lease_seconds=lease_seconds),
            acknowledged=metrics.DELETION_ACKNOWLEDGED.inc,
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._busy.shutdown()
        self._worker.close()

    def _process_busily(self, deliveries: Sequence[Delivery[_Task]]) -> Iterator[Answer]:
        """A location that is slow must not cost the lease."""
        return answered_at_once(self._busy, partial(self._process, deliveries), beat_seconds=self._beat_seconds)

    def _process(self, deliveries: Sequence[Delivery[_Task]]) -> list[Answer]:
        if self._stop.is_set():
            return [LEFT] * len(deliveries)
        metrics.DELETION_RECEIVED.inc(len(deliveries))
        recorded = _recorded(deliveries)
        answers: dict[int, Answer] = {}
        ended: list[_Ended] = []
        due: dict[int, PendingDelete] = {}
        for number, delivery in enumerate(deliveries):
            task = delivery.task
            if delivery.origin in recorded:
                answers[number] = DONE
            elif isinstance(task, IncompletePending):
                detail = f"the message lacks {', '.join(task.missing)}"
                ended.append((delivery, DeletionOutcome.INCOMPLETE, detail))
                answers[number] = DONE
            elif task.not_before > self._now():
                answers[number] = self._awaiting_grace(delivery, task.location, task.not_before)
            else:
                due[number] = task
        for number, result in zip(due, self._deleter.results(list(due.values())), strict=True):
            answers[number] = self._answer(deliveries[number], due[number], result, ended)
        self._record(ended)
        return [answers[number] for number in range(len(deliveries))]

    def _answer(self, delivery: Delivery[_Task], pending: PendingDelete, result: Result, ended: list[_Ended]) -> Answer:
        if result.not_before:
            return self._awaiting_grace(delivery, pending.location, result.not_before)
        if result.outcome is None:
            return self._failed(delivery, pending, result.detail, ended)
        if result.outcome is DeletionOutcome.IN_USE:
            later = self._look_again_at(delivery)
            if later is not None:
                return self._postponed(delivery, later)
        ended.append((delivery, result.outcome, result.detail))
        return DONE

    def _look_again_at(self, delivery: Delivery[_Task]) -> float | None:
        """When to look whether the data has left its record; None if that should have been done by now."""
        sent_at, now = delivery.message.appended_at, self._now()
        moments = [sent_at + min(_SOON_SECONDS, self._settings.record_seconds), sent_at + self._settings.record_seconds]
        return next((moment for moment in moments if moment > now), None)

    def _failed(self, delivery: Delivery[_Task], pending: PendingDelete, reason: str, ended: list[_Ended]) -> Answer:
        metrics.DELETION_FAILED.labels(pending.data_type.value).inc()
        tries = delivery.attempt - self._postponements(delivery)
        if tries <= self._settings.max_retries:
            logger.warning(
                "data of %s/%s was not deleted, and is tried again in %g s: %s",
                pending.bucket, pending.key, self._settings.reconsume_seconds, reason,
            )  # fmt: skip
            return Answer(Disposition.RETRY, reason)
        metrics.DELETION_MAX_RETRIES.inc()
        ended.append((delivery, DeletionOutcome.GIVEN_UP, reason))
        return Answer(Disposition.DEAD_LETTER, reason)

    # --- postponements ---------------------------------------------------------------------------

    def _awaiting_grace(self, delivery: Delivery[_Task], location: str, not_before: float) -> Answer:
        """Noted down, since it keeps no other location from being removed."""
        entry = f"{AWAITING_GRACE}{location}/{delivery.origin}"
        self._tables.put(entry, repr(not_before), expires_in=max(not_before - self._now(), 1.0))
        return self._postponed(delivery, not_before)

    def _postponed(self, delivery: Delivery[_Task], not_before: float) -> Answer:
        """Noted down, since it raises the number of the next attempt."""
        retries_seconds = (self._settings.max_retries + 1) * self._settings.reconsume_seconds
        life = max(not_before - self._now(), 0.0) + retries_seconds + _DAY_SECONDS
        count = self._postponements(delivery) + 1
        self._tables.put(_POSTPONED + delivery.origin, str(count), expires_in=life)
        return Answer(Disposition.POSTPONED, not_before=not_before)

    def _postponements(self, delivery: Delivery[_Task]) -> int:
        if delivery.attempt == 1:
            return 0
        return int(self._tables.get(_POSTPONED + delivery.origin) or 0)

    # --- what became of them ---------------------------------------------------------------------

    def _record(self, ended: Sequence[_Ended]) -> None:
        at_ns = int(self._now() * 1e9)
        self._audit.append(
            [
                DeletionRecord.of(
                    delivery.task, outcome, detail, at_ns=at_ns, worker=self._name, origin=delivery.origin
                )
                for delivery, outcome, detail in ended
            ]
        )
        for delivery, outcome, detail in ended:
            _count(delivery.task, outcome)
            if outcome in (DeletionOutcome.NOT_MATCHED, DeletionOutcome.INCOMPLETE):
                logger.warning("the pending delete %s is ignored: %s: %s", delivery.origin, outcome, detail)


def _recorded(deliveries: Sequence[Delivery[_Task]]) -> set[str]:
    """The origins of those that an earlier attempt has finished but for acknowledging them. What was given up may not
    have become a dead letter yet."""
    again = {delivery.origin: delivery for delivery in deliveries if delivery.prior is not None}
    if not again:
        return set()
    appended = map(DeletionRecord.from_json, next(iter(again.values())).appended_before(DELETION_AUDIT_TOPIC))
    return {
        record.origin
        for record in appended
        if record.origin in again and record.outcome is not DeletionOutcome.GIVEN_UP
    }


def _count(task: _Task, outcome: DeletionOutcome) -> None:
    if outcome is DeletionOutcome.DELETED:
        data = task.data_type if isinstance(task, PendingDelete) else DataType.STORE
        metrics.DELETION_DELETED.labels(data.value).inc()
    elif outcome is not DeletionOutcome.GIVEN_UP:
        metrics.DELETION_NOT_DELETED.labels(outcome.value).inc()
