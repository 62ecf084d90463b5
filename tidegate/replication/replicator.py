"""The replicator of a site: a worker that has tasks carried out, several keys at a time, and sends their statuses.

Every site has a consumer group of its own, so that one that is slow, down or paused holds up no other. All groups read
the same topic, and acknowledge at once what is not for their site.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.replication.messages import REPLICATION_TOPIC, STATUS_TOPIC, ReplicationTask, StatusUpdate
from tidegate.core.replication.records import Status
from tidegate.movement.pending_deletes import record_of as pending_record
from tidegate.ports import Store, Tables, Topics
from tidegate.replication.key_replication import KeyReplication, Outcome, Result, Site, Wanted
from tidegate.replication.pause_watch import PauseWatch
from tidegate.replication.site_memory import SiteMemory
from tidegate.replication.site_writer import SiteWriter
from tidegate.replication.topics import replicator_group, send
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition
from tidegate.workers.parallel import answered_by_groups
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker import Worker

# Enough to keep all threads at work to the end of a batch, whose last version others wait for.
_BATCHES_PER_THREAD, _MOST = 16, 1000
# Statuses that come within this time are stored together: each write costs a sync, and more where they are read.
_GATHER_SECONDS = 0.5
_PAUSED_SECONDS = 0.5
_WAIT_SECONDS = 1.0
# After so long, a version asks again whether the older one is through that it waits for.
_BLOCKED_SECONDS = 5.0

_Delivery = Delivery[ReplicationTask]


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """How a replicator reaches its site, and how it goes about it. `open_store` raises `Unavailable` where there is no
    such location any more. `deletion_topic` gets copies that nobody needs."""

    name: str
    threads: int
    open_store: Callable[[], Store]
    writer: SiteWriter
    retries: RetryPolicy
    deletion_topic: str


class Replicator:
    """A member of the site's group, with as many threads as keys may be under way at a time."""

    def __init__(self, tables: Tables, topics: Topics, access: SiteAccess, *, lease_seconds: float, stop: Flag) -> None:
        self._tables = tables
        self._topics = topics
        self._access = access
        self._beat_seconds = min(lease_seconds / 4, 1.0)
        self._stop = stop
        self._pause = PauseWatch(tables, access.name)
        self._memory = SiteMemory(time.time())
        group = replicator_group(access.name)
        self._executor = ThreadPoolExecutor(access.threads, thread_name_prefix=group)
        least = access.threads * _BATCHES_PER_THREAD
        self._worker = Worker(
            topics,
            tables,
            topic=REPLICATION_TOPIC,
            group=group,
            decode=ReplicationTask.from_bytes,
            handle_batch=self._process,
            retries=access.retries,
            lease_seconds=lease_seconds,
            size=BatchSize(least, least=least, most=max(least, _MOST), lease_seconds=lease_seconds),
            stop=stop,
        )

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Finishes one batch of tasks and says how many there were; none while the site is paused. Those that were left
        then are given back, to be delivered again."""
        if self._pause.is_paused():
            self._worker.close()
            self._stop.wait(min(wait_seconds, _PAUSED_SECONDS))
            return 0
        return self._worker.run_once(wait_seconds)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._worker.close()

    def _may_begin(self) -> bool:
        return not (self._stop.is_set() or self._pause.is_paused())

    def _process(self, deliveries: Sequence[_Delivery]) -> Iterator[Answer]:
        keys: dict[tuple[str, str], list[int]] = {}
        for number, delivery in enumerate(deliveries):
            if self._access.name in delivery.task.sites:
                keys.setdefault((delivery.task.bucket_uid, delivery.task.key), []).append(number)
        site = Site(self._access.name, self._access.open_store(), self._access.writer, self._memory) if keys else None
        groups = [
            (numbers, partial(self._replicate, site, uid, key, [deliveries[number] for number in numbers]))
            for (uid, key), numbers in keys.items()
            if site is not None
        ]
        return answered_by_groups(
            self._executor,
            len(deliveries),
            groups,
            self._tell,
            beat_seconds=self._beat_seconds,
            gather_seconds=_GATHER_SECONDS,
        )

    def _replicate(self, site: Site, uid: str, key: str, deliveries: Sequence[_Delivery]) -> list[Outcome]:
        if not self._may_begin():
            return [Outcome(Result.LEFT)] * len(deliveries)
        may_retry = self._access.retries.may_retry
        wanted = [Wanted(each.task, each.is_repeated, not may_retry(each.attempt)) for each in deliveries]
        with metrics.REPLICATION_IN_PROGRESS.labels(site.name).track_inprogress():
            outcomes = KeyReplication(self._tables, site, uid, key, self._may_begin).outcomes(wanted)
        for each, outcome in zip(wanted, outcomes, strict=True):
            self._count(each.task, outcome)
        return outcomes

    def _tell(self, ended: Mapping[int, Outcome]) -> dict[int, Answer]:
        """The answers; copies that are not needed any more, and then the statuses that take them out of their records,
        are on stable storage before."""
        released: list[PendingDelete] = [each for outcome in ended.values() for each in outcome.released]
        if released:
            self._topics.append(self._access.deletion_topic, [pending_record(each) for each in released])
        send(self._topics, STATUS_TOPIC, [message for outcome in ended.values() for message in outcome.messages])
        return {number: _answer(outcome) for number, outcome in ended.items()}

    def _count(self, task: ReplicationTask, outcome: Outcome) -> None:
        name = self._access.name
        if outcome.result is Result.RETRY:
            metrics.REPLICATION_RETRIES.labels(name).inc()
        for message in outcome.messages:
            if not isinstance(message, StatusUpdate):
                continue
            if message.status is Status.FAILED:
                metrics.REPLICATION_FAILURES.labels(name).inc()
            elif message.status is Status.COMPLETED and message.version_id == task.version_id:
                metrics.REPLICATION_COMPLETIONS.labels(name).inc()
                metrics.REPLICATION_SECONDS.labels(name).observe(max(message.at - task.ts_ns / 1e9, 0.0))


def _answer(outcome: Outcome) -> Answer:
    match outcome.result:
        case Result.DONE:
            return DONE
        case Result.LEFT:
            return LEFT
        case Result.RETRY:
            return Answer(Disposition.RETRY, outcome.reason)
        case Result.BLOCKED:
            return Answer(Disposition.POSTPONED, outcome.reason, not_before=time.time() + _BLOCKED_SECONDS)
