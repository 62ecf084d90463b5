"""Has tasks carried out bucket by bucket, in parallel: as many requests at a time as there are threads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.errors import NotFound, Unavailable
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.assignments import Assignment, Result
from tidegate.lifecycle.acting.bucket_actions import Actor, batches
from tidegate.lifecycle.acting.rechecking import BucketRecheck, Lookers
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.lifecycle.buckets.time_scale import day_seconds
from tidegate.movement.trash import Trash
from tidegate.ports import Store, Tables
from tidegate.settings import LifecycleSettings
from tidegate.workers.rate import InstallationRate

_SICK_SECONDS = 10.0
_LEAST_PER_REQUEST = 100
_MOST_PER_REQUEST = 1000
# Requests for tags or versions at the same time, for each that deletes.
_LOOKERS = 4


class Dispatcher:
    """`executor` has so many `threads` and is shared with other dispatchers: while one's owner keeps its books, all
    threads act for the others. Who made it shuts it down. Without a `trash` nothing that is deleted is kept.
    `hold_failed`: what could not be replicated is left alone, as is what is still to be replicated."""

    def __init__(
        self,
        tables: Tables,
        stores: Stores,
        settings: LifecycleSettings,
        trash: Trash | None = None,
        *,
        rate: InstallationRate,
        stops: StopReader,
        executor: Executor,
        threads: int,
        stop: Flag,
        hold_failed: bool = False,
    ) -> None:
        self._tables = tables
        self._stores = stores
        self._settings = settings
        self._trash = trash
        self._rate = rate
        self._stops = stops
        self._executor = executor
        self._threads = threads
        self._stop = stop
        self._hold_failed = hold_failed
        self._lookers = Lookers(_LOOKERS)
        self._sick_until: dict[str, float] = {}

    def close(self) -> None:
        self._lookers.close()

    def results(self, assignments: Sequence[Assignment]) -> list[Result | None]:
        """In their order; None for those that were left when the process was told to stop."""
        work: list[tuple[list[int], Future[list[Result]]]] = []
        buckets: dict[tuple[str, str], list[int]] = {}
        for number, assignment in enumerate(assignments):
            buckets.setdefault((assignment.task.bucket, assignment.task.bucket_uid), []).append(number)
        for (name, uid), group in buckets.items():
            # Neighbours in one request are looked at together.
            group.sort(key=lambda number: _place(assignments[number]))
            start = 0
            for batch in batches([assignments[number] for number in group], self._most_per_request(len(group))):
                work.append((group[start : start + len(batch)], self._executor.submit(self._act, name, uid, batch)))
                start += len(batch)
        found: list[Result | None] = [None] * len(assignments)
        for numbers, future in work:
            for number, result in zip(numbers, future.result(), strict=False):
                found[number] = result
        return found

    def _most_per_request(self, tasks: int) -> int:
        """All threads are to have a part of a bucket's tasks, though none a tiny one."""
        return min(self._rate.portion(1.0, _MOST_PER_REQUEST), max(-(-tasks // self._threads), _LEAST_PER_REQUEST))

    def _act(self, name: str, uid: str, batch: list[Assignment]) -> list[Result]:
        bucket = existing(self._tables, name, uid)
        if bucket is None:
            return [Result(Outcome.NOOP_RESOLVED, "the bucket is gone")] * len(batch)
        if self._sick_until.get(bucket.pool, 0.0) > time.monotonic():
            return [Result(Outcome.RETRY_LATER, f"pool {bucket.pool} did not answer")] * len(batch)
        wait = self._rate.take(len(batch))
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
            recheck=self.recheck(bucket, store),
            keeper=self._trash.of_bucket(bucket, store) if self._trash is not None else None,
        )
        results = actor.act(batch)
        if any(result.outcome is Outcome.RETRY_LATER and not result.waits_for for result in results):
            self._sick_until[bucket.pool] = time.monotonic() + _SICK_SECONDS
        return results

    def recheck(self, bucket: Bucket, store: Store) -> BucketRecheck:
        """The last look at what the bucket's rules say."""
        return BucketRecheck(
            self._tables,
            store,
            bucket.name,
            bucket.uid,
            day_seconds=day_seconds(self._tables, self._settings, bucket.pool),
            now_ns=time.time_ns,
            why_stopped=lambda: self._stops.current().why_stopped(bucket.uid),
            lookers=self._lookers,
            hold_failed=self._hold_failed,
        )


def _place(assignment: Assignment) -> tuple[bytes, str]:
    return assignment.task.key.encode(), assignment.task.version_id
