"""The data mover: a worker that has copy tasks carried out, several at a time, and sends their statuses.

Every location has a consumer group of its own, so that one that is slow or down holds up no other. All groups read the
same topic, and acknowledge at once what is not theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.copy_tasks import COPY_ACTION, DATA_MOVER_TOPIC, CopyResult, CopyStatus, CopyTask, action_of
from tidegate.core.errors import InvalidInput, NotFound, Unavailable
from tidegate.movement.mover_topics import RESULT_TOPICS
from tidegate.movement.source_reader import Stopped
from tidegate.ports import Message, Record, Tables, Topics
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.parallel import answered
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker import Worker

# Enough to keep all threads at work to the end of a batch, whose last copy others wait for.
_BATCHES_PER_THREAD, _MOST = 8, 1000

_Delivery = Delivery[CopyTask]


@dataclass(frozen=True, slots=True)
class Errand:
    """Which tasks a mover sees to, and how. `name` is that of its location. `do` may raise `Unavailable` and `Stopped`;
    `give_up` cleans up after a task that is not tried again."""

    name: str
    is_mine: Callable[[CopyTask, Message], bool]
    do: Callable[[CopyTask], CopyStatus]
    give_up: Callable[[CopyTask, str], None]


class DataMover:
    """A member of the location's group."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        errand: Errand,
        *,
        group: str,
        threads: int,
        retries: RetryPolicy,
        lease_seconds: float,
        stop: Flag,
    ) -> None:
        self._topics = topics
        self._errand = errand
        self._retries = retries
        self._beat_seconds = min(lease_seconds / 4, 1.0)
        self._stop = stop
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=group)
        least = threads * _BATCHES_PER_THREAD
        self._worker = Worker(
            topics,
            tables,
            topic=DATA_MOVER_TOPIC,
            group=group,
            decode=CopyTask.from_bytes,
            handle_batch=self._process,
            retries=retries,
            appends=RESULT_TOPICS,
            lease_seconds=lease_seconds,
            size=BatchSize(least, least=least, most=max(least, _MOST), lease_seconds=lease_seconds),
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._worker.close()

    def _process(self, deliveries: Sequence[_Delivery]) -> Iterator[Answer]:
        told = _told(deliveries)
        work = [
            partial(self._attempt, delivery)
            if delivery.task.id not in told and self._errand.is_mine(delivery.task, delivery.message)
            else None
            for delivery in deliveries
        ]
        return answered(self._executor, work, self._tell, beat_seconds=self._beat_seconds)

    def _attempt(self, delivery: _Delivery) -> CopyStatus | Answer:
        """The status of a task that has ended, or what becomes of one that has not."""
        if self._stop.is_set():
            return LEFT
        task, name = delivery.task, self._errand.name
        began = time.monotonic()
        with metrics.MOVEMENT_IN_PROGRESS.labels(name).track_inprogress():
            try:
                status = self._errand.do(task)
            except Stopped:
                return LEFT
            except Unavailable as error:
                if self._retries.may_retry(delivery.attempt):
                    metrics.MOVEMENT_COPIES.labels(name, "retried").inc()
                    return Answer(Disposition.RETRY, str(error))
                self._errand.give_up(task, str(error))
                status = CopyStatus(task=task, result=CopyResult.FAILED, reason=str(error))
        metrics.MOVEMENT_COPIES.labels(name, status.result.value).inc()
        metrics.MOVEMENT_SECONDS.labels(name).observe(time.monotonic() - began)
        return status

    def _tell(self, ended: Mapping[int, CopyStatus | Answer]) -> dict[int, Answer]:
        """The answers; statuses are on stable storage before."""
        answers: dict[int, Answer] = {}
        statuses: dict[str, dict[int, CopyStatus]] = {}
        for number, found in ended.items():
            if isinstance(found, Answer):
                answers[number] = found
            else:
                statuses.setdefault(found.task.results_topic, {})[number] = found
        for topic, of_topic in statuses.items():
            answer = DONE
            try:
                self._topics.append(topic, [_record(status) for status in of_topic.values()])
            except (NotFound, InvalidInput) as error:
                answer = Answer(Disposition.DEAD_LETTER, f"its status cannot be sent: {error}")
            answers |= dict.fromkeys(of_topic, answer)
        return answers


def _told(deliveries: Sequence[_Delivery]) -> set[str]:
    """The ids of tasks whose status an earlier attempt has sent, and which it did not acknowledge."""
    again = next((delivery for delivery in deliveries if delivery.prior is not None), None)
    if again is None:
        return set()
    appended = (value for topic in RESULT_TOPICS for value in again.appended_before(topic))
    statuses = (CopyStatus.from_bytes(value) for value in appended if action_of(value) == COPY_ACTION)
    return {status.task.id for status in statuses}


def _record(status: CopyStatus) -> Record:
    return Record(f"{status.task.bucket_uid}/{status.task.key}", status.to_bytes())
