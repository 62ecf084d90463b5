"""The lifecycle process: `python -m tidegate.lifecycle.serve --data DIR`, started by the supervisor.

All roles but the conductor run here, each in a thread of its own. They keep nothing in memory that matters: a killed
process loses nothing, and what it had begun is delivered again.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tidegate.assembly import open_location
from tidegate.lifecycle import process
from tidegate.lifecycle.acting.object_processor import ObjectProcessor
from tidegate.lifecycle.buckets.populator import QueuePopulator
from tidegate.lifecycle.process import ServiceContext
from tidegate.lifecycle.topics import WORKERS
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.locations import Locations
from tidegate.movement.placer import Placer
from tidegate.movement.trash import Trash
from tidegate.pools.vault import Vault
from tidegate.workers.process import run_threads
from tidegate.workers.rate import InstallationRate
from tidegate.workers.worker_thread import WorkerThread

# While one keeps its books, the other has the stores at work.
_OBJECT_PROCESSORS = 2


def main() -> None:
    sys.exit(process.run("lifecycle", "The lifecycle roles of Tidegate.", _serve))


def _serve(context: ServiceContext) -> int:
    executor = ThreadPoolExecutor(context.settings.lifecycle.workers, thread_name_prefix="lifecycle-delete")
    locations = Locations(context.tables, Vault.open(context.data), context.settings.locations, open_location)
    trash = Trash(context.tables, context.topics, context.stores, locations, context.settings, stop=context.stop)
    code = run_threads(_threads(context, executor, trash), context.stop)
    executor.shutdown(wait=False, cancel_futures=True)
    trash.close()
    locations.close()
    context.stores.close()
    context.topics.close()
    context.tables.close()
    return code


def _threads(context: ServiceContext, executor: ThreadPoolExecutor, trash: Trash) -> list[WorkerThread]:
    settings, tables, topics, stop = context.settings, context.tables, context.topics, context.stop
    lease_seconds = settings.topics.lease_seconds
    rate = InstallationRate(tables, WORKERS, settings.lifecycle.deletes_per_second, settings.lifecycle.deletes_burst)
    progress = CopyProgress(tables, topics, deletion_topic=settings.deletion.topic)
    placer = Placer(tables, progress, context.stores)
    populator = QueuePopulator(tables, topics, log_topic=settings.metalog.topic)
    deleters = [
        ObjectProcessor(
            tables,
            topics,
            context.stores,
            settings.lifecycle,
            placer,
            trash,
            rate=rate,
            executor=executor,
            threads=settings.lifecycle.workers,
            lease_seconds=lease_seconds,
            stop=stop,
            hold_failed=settings.replication.hold_failed,
        )
        for _ in range(_OBJECT_PROCESSORS)
    ]
    return [
        WorkerThread("queue populator", partial(populator.run_forever, stop), populator.close, stop),
        *(WorkerThread("object processor", deleter.run_forever, deleter.close, stop) for deleter in deleters),
    ]


if __name__ == "__main__":
    main()
