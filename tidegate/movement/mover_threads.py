"""The threads that move data: a data mover for each location, one that moves data back, and those of operators' moves.

Locations come and go while the process runs, and the movers with them.
"""

from __future__ import annotations

import time
from functools import partial
from threading import Event as Flag

from tidegate.core.copy_tasks import CopyResult, CopyStatus, CopyTask
from tidegate.core.locations import Location, serving
from tidegate.lifecycle.process import ServiceContext
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.copying import Copier
from tidegate.movement.data_mover import DataMover, Errand
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.location_threads import LocationThreads, Wanted
from tidegate.movement.move_lister import MoveLister
from tidegate.movement.move_results import MoveResults
from tidegate.movement.mover_topics import BACK_GROUP, create_topics, mover_group
from tidegate.movement.moving_back import BackMover
from tidegate.movement.pending_deletes import BelievedData
from tidegate.movement.placer import Placer
from tidegate.ports import Message
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker_thread import WorkerThread

_SWEEP_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0
_BACK = "back"
_BACK_THREADS = 8
# A small object takes longer to be recorded than to be copied: while some wait for the tables, others move data.
_THREADS_PER_TRANSFER = 3


def mover_threads(context: ServiceContext, locations: KnownLocations, believed: BelievedData) -> list[WorkerThread]:
    """All of them. They end when `context.stop` is set. `believed` is data that they send to deletion."""
    settings, stop = context.settings, context.stop
    create_topics(context.topics)
    delays = settings.movement.retry_seconds
    retries = RetryPolicy(delays=delays, tries=len(delays) + 1, jitter=0.1)
    topic = settings.deletion.topic
    progress = CopyProgress(context.tables, context.topics, deletion_topic=topic, believed=believed)
    movers = Movers(context, locations, progress, retries)
    threads = LocationThreads(movers.wanted, movers.thread, stop=stop, round_done=movers.sweep)
    # Tasks are dropped after so long, and so are their statuses.
    lost_seconds = 2 * settings.topics.task_days * _DAY_SECONDS
    lister = MoveLister(context.tables, context.topics, context.stores, lost_seconds=lost_seconds, stop=stop)
    results = MoveResults(
        context.tables,
        context.topics,
        Placer(context.tables, progress, context.stores),
        retries=retries,
        lease_seconds=settings.topics.lease_seconds,
        stop=stop,
    )
    return [
        WorkerThread("data movers", threads.run_forever, threads.close, stop),
        WorkerThread("placer", results.run_forever, results.close, stop),
        WorkerThread("lister of moves", lister.run_forever, lister.close, stop),
    ]


class Movers:
    """Makes a data mover for each location, and one that moves back. For one thread."""

    def __init__(
        self, context: ServiceContext, locations: KnownLocations, progress: CopyProgress, retries: RetryPolicy
    ) -> None:
        self._context = context
        self._locations = locations
        self._progress = progress
        self._retries = retries
        self._swept_at = float("-inf")

    def wanted(self) -> Wanted:
        return {**{location.name: location for location in self._locations.all()}, "": None}

    def sweep(self) -> None:
        if time.monotonic() > self._swept_at + _SWEEP_SECONDS:
            self._progress.release_abandoned(now=time.time())
            self._swept_at = time.monotonic()

    def thread(self, location: Location | None, stop: Flag) -> WorkerThread:
        errand = self._back(stop) if location is None else self._to(location, stop)
        mover = DataMover(
            self._context.tables,
            self._context.topics,
            errand,
            group=BACK_GROUP if location is None else mover_group(location.name),
            threads=_BACK_THREADS if location is None else _THREADS_PER_TRANSFER * location.concurrency,
            retries=self._retries,
            lease_seconds=self._context.settings.topics.lease_seconds,
            stop=stop,
        )
        return WorkerThread(f"data mover {errand.name}", mover.run_forever, mover.close, stop)

    def _to(self, location: Location, stop: Flag) -> Errand:
        copier = Copier(
            self._context.tables,
            self._progress,
            self._context.stores,
            self._locations,
            part_bytes=self._context.settings.movement.part_mb << 20,
            at_a_time=location.concurrency,
            stop=stop,
        )

        def is_mine(task: CopyTask, message: Message) -> bool:
            return not task.back and _serves(location, task, message)

        return Errand(location.name, is_mine, partial(copier.copy, location=location), copier.give_up)

    def _back(self, stop: Flag) -> Errand:
        mover = BackMover(self._context.tables, self._context.stores, self._locations, stop=stop)

        def is_mine(task: CopyTask, message: Message) -> bool:
            return task.back or not any(_serves(location, task, message) for location in self._locations.all())

        def do(task: CopyTask) -> CopyStatus:
            if task.back:
                return mover.move(task)
            return CopyStatus(task=task, result=CopyResult.REFUSED, reason=self._why_refused(task))

        return Errand(_BACK, is_mine, do, lambda task, reason: None)

    def _why_refused(self, task: CopyTask) -> str:
        if any(_is_meant(location, task) for location in self._locations.all()):
            return "its location was made after this was asked for"
        what = f"is called {task.location}" if task.location else f"serves the storage class {task.storage_class}"
        return f"no location {what}"


def _is_meant(location: Location, task: CopyTask) -> bool:
    return task.location == location.name if task.location else serving([location], task.storage_class) is not None


def _serves(location: Location, task: CopyTask, message: Message) -> bool:
    """Whether the location's mover sees to the task. What was asked for before there was such a location is answered by
    the one that moves back."""
    return _is_meant(location, task) and message.appended_at >= location.created_at
