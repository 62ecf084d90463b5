"""The movement process: `python -m tidegate.movement.serve --data DIR`, started by the supervisor.

Everything that sees to data which lies, or lay, elsewhere runs here, each in a thread of its own. Threads keep nothing
in memory that matters: a killed process loses nothing, and what it had begun is delivered again.
"""

from __future__ import annotations

import sys
from typing import Any

from tidegate.assembly import open_location
from tidegate.jobs.job_list import JobList
from tidegate.jobs.job_runner import JobRunner
from tidegate.lifecycle import process
from tidegate.lifecycle.process import ServiceContext
from tidegate.movement.audits import audits_in
from tidegate.movement.deletion import Deleter
from tidegate.movement.deletion_worker import DeletionWorker
from tidegate.movement.in_use import Owners
from tidegate.movement.locations import Locations
from tidegate.movement.mover_threads import mover_threads
from tidegate.movement.pending_deletes import BelievedData
from tidegate.movement.topics import create_deletion_topics
from tidegate.pools.vault import Vault
from tidegate.replication.jobs import jobs_in
from tidegate.replication.replication_threads import replication_threads
from tidegate.workers.process import run_threads
from tidegate.workers.worker_thread import WorkerThread


def main() -> None:
    sys.exit(process.run("movement", "The data movement and deletion of Tidegate.", _serve))


def _serve(context: ServiceContext) -> int:
    create_deletion_topics(context.topics, context.settings.deletion)
    locations = Locations(context.tables, Vault.open(context.data), context.settings.locations, open_location)
    believed = BelievedData()
    threads = [
        *_deletion_threads(context, locations, believed),
        *mover_threads(context, locations, believed),
        *replication_threads(context, locations),
        _job_thread(context),
    ]
    code = run_threads(threads, context.stop)
    locations.close()
    context.stores.close()
    context.topics.close()
    context.tables.close()
    return code


def _deletion_threads(context: ServiceContext, locations: Locations, believed: BelievedData) -> list[WorkerThread]:
    """None while deletion is off: what is pending waits in its topic."""
    settings = context.settings.deletion
    if not settings.enabled:
        return []
    deleter = Deleter(context.tables, context.stores, locations, Owners(context.tables), believed)
    workers = [
        DeletionWorker(
            context.tables,
            context.topics,
            deleter,
            settings,
            lease_seconds=context.settings.topics.lease_seconds,
            stop=context.stop,
        )
        for _ in range(settings.parallelism)
    ]
    return [
        WorkerThread(f"deletion {number}", worker.run_forever, worker.close, context.stop)
        for number, worker in enumerate(workers)
    ]


def _job_thread(context: ServiceContext) -> WorkerThread:
    """What is asked for rarely, and carried out by Spark in a process of its own."""
    tables, data, stop = context.tables, context.data, context.stop
    lists: list[JobList[Any]] = [audits_in(tables, data), jobs_in(tables, data)]
    idle_seconds = context.settings.spark.job_idle_seconds
    runner = JobRunner(tables, lists, data, idle_seconds=idle_seconds, stop=stop)
    return WorkerThread("jobs", runner.run_forever, runner.close, stop)


if __name__ == "__main__":
    main()
