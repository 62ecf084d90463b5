"""The placer of moves that operators asked for: settles their copies, and notes down what became of each version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event as Flag

from tidegate.core.copy_tasks import CopyStatus
from tidegate.core.errors import Unavailable
from tidegate.movement.move_records import FAILED, MOVED, UNCHANGED, ItemId, MoveRecords
from tidegate.movement.mover_topics import MOVEMENT_RESULTS_TOPIC, PLACER_GROUP
from tidegate.movement.placer import Placer, Settled
from tidegate.ports import Tables, Topics
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.parallel import answered
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker import Worker

_THREADS = 16
_LETTERS = {
    Settled.PLACED: MOVED,
    Settled.CHANGED: UNCHANGED,
    Settled.GONE: UNCHANGED,
    Settled.REFUSED: FAILED,
    Settled.FAILED: FAILED,
}

_Delivery = Delivery[CopyStatus]
_Ended = tuple[CopyStatus, str, str]


class MoveResults:
    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        placer: Placer,
        *,
        retries: RetryPolicy,
        lease_seconds: float,
        stop: Flag,
    ) -> None:
        self._placer = placer
        self._records = MoveRecords(tables)
        self._retries = retries
        self._beat_seconds = min(lease_seconds / 4, 1.0)
        self._stop = stop
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix=PLACER_GROUP)
        self._worker = Worker(
            topics,
            tables,
            topic=MOVEMENT_RESULTS_TOPIC,
            group=PLACER_GROUP,
            decode=CopyStatus.from_bytes,
            handle_batch=self._process,
            retries=retries,
            lease_seconds=lease_seconds,
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._worker.close()

    def _process(self, deliveries: Sequence[_Delivery]) -> Iterator[Answer]:
        work = [partial(self._settle, delivery) for delivery in deliveries]
        return answered(self._executor, work, self._note, beat_seconds=self._beat_seconds)

    def _settle(self, delivery: _Delivery) -> _Ended | Answer:
        """The letter of what has ended with its reason, or what becomes of a status that is not settled yet."""
        if self._stop.is_set():
            return LEFT
        status = delivery.task
        try:
            found = self._placer.settle(status)
        except Unavailable as error:
            if self._retries.may_retry(delivery.attempt):
                return Answer(Disposition.RETRY, str(error))
            self._placer.release(status, str(error))
            return status, FAILED, str(error)
        return status, _LETTERS[found.settled], found.reason

    def _note(self, ended: Mapping[int, _Ended | Answer]) -> dict[int, Answer]:
        """The answers; what became of versions is noted in the tables before, page by page."""
        answers: dict[int, Answer] = {}
        pages: dict[tuple[str, int], dict[int, tuple[str, str]]] = {}
        for number, found in ended.items():
            if isinstance(found, Answer):
                answers[number] = found
                continue
            status, letter, reason = found
            answers[number] = DONE
            item = ItemId.parse(status.task.request_id)
            if item is not None:
                pages.setdefault(item[:2], {})[item.place] = (letter, f"{status.task.key}: {reason}")
        for (move_id, page), outcomes in pages.items():
            self._records.note(move_id, page, outcomes)
        return answers
