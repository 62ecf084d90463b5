"""The threads of replication: populator, status processor, failed consumer, and a replicator for each site in use."""

from __future__ import annotations

import time
from functools import partial
from threading import Event as Flag

from tidegate.core.errors import NotFound, Unavailable
from tidegate.core.locations import Location
from tidegate.core.replication.records import OPEN
from tidegate.lifecycle.process import ServiceContext
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.location_threads import LocationThreads, Wanted
from tidegate.ports import Store
from tidegate.replication.failed_consumer import FailedConsumer
from tidegate.replication.failure_retry import finish_cut_off
from tidegate.replication.populator import Populator
from tidegate.replication.queries import ReplicationQueries
from tidegate.replication.replicator import Replicator, SiteAccess
from tidegate.replication.retries import retry_policy
from tidegate.replication.site_writer import SiteWriter
from tidegate.replication.status_processor import StatusProcessor
from tidegate.replication.stored_rules import StoredRules
from tidegate.replication.topics import create_replication_topics, trim_finished
from tidegate.replication.upload_records import UploadRecords
from tidegate.workers.worker_thread import WorkerThread

_LOOK_SECONDS = 1.0
_SWEEP_SECONDS = 600.0
_FINISH_SECONDS = 30.0


def replication_threads(context: ServiceContext, locations: KnownLocations) -> list[WorkerThread]:
    """All of them; none while replication is off. They end when `context.stop` is set."""
    settings, stop = context.settings, context.stop
    create_replication_topics(context.topics)
    if not settings.replication.enabled:
        return []
    lease = settings.topics.lease_seconds
    tables, topics = context.tables, context.topics
    populator = Populator(tables, topics, context.stores, log_topic=settings.metalog.topic, stop=stop)
    processor = StatusProcessor(tables, topics, lease_seconds=lease, stop=stop)
    failed = FailedConsumer(tables, topics, hours=settings.replication.failed_hours, lease_seconds=lease, stop=stop)
    replicators = Replicators(context, locations)
    threads = LocationThreads(
        replicators.wanted, replicators.thread, stop=stop, round_done=replicators.sweep, look_seconds=_LOOK_SECONDS
    )
    return [
        WorkerThread("replication populator", populator.run_forever, populator.close, stop),
        WorkerThread("replication status processor", processor.run_forever, processor.close, stop),
        WorkerThread("replication failed consumer", failed.run_forever, failed.close, stop),
        WorkerThread("replicators", threads.run_forever, threads.close, stop),
    ]


class Replicators:
    """Makes a replicator for each location that is a site. For one thread."""

    def __init__(self, context: ServiceContext, locations: KnownLocations) -> None:
        self._context = context
        self._locations = locations
        self._rules = StoredRules(context.tables)
        settings = context.settings
        self._uploads = UploadRecords(context.tables, context.topics, deletion_topic=settings.deletion.topic)
        self._retries = retry_policy(settings)
        self._swept_at = self._finished_at = float("-inf")

    def wanted(self) -> Wanted:
        """The locations that rules name as sites, or to which something is still on its way."""
        named = self._rules.sites()
        return {location.name: location for location in self._locations.all() if self._is_site(location.name, named)}

    def sweep(self) -> None:
        """Finishes retries that were cut off; clears away uploads that nobody goes on with, and finished messages."""
        if time.monotonic() > self._finished_at + _FINISH_SECONDS:
            finish_cut_off(self._context.tables, self._context.topics, now=time.time())
            self._finished_at = time.monotonic()
        if time.monotonic() > self._swept_at + _SWEEP_SECONDS:
            self._uploads.release_abandoned(now=time.time())
            queries = ReplicationQueries(self._context.tables)
            trim_finished(self._context.topics, queries.sites_in_use())
            self._swept_at = time.monotonic()

    def thread(self, location: Location | None, stop: Flag) -> WorkerThread:
        assert location is not None, "every replicator has a site"
        settings = self._context.settings
        writer = SiteWriter(
            location.name,
            self._context.stores,
            self._uploads,
            part_bytes=settings.replication.part_mb << 20,
            stop=stop,
        )
        access = SiteAccess(
            name=location.name,
            threads=location.concurrency,
            open_store=partial(self._store, location.name),
            writer=writer,
            retries=self._retries,
            deletion_topic=settings.deletion.topic,
        )
        replicator = Replicator(
            self._context.tables,
            self._context.topics,
            access,
            lease_seconds=settings.topics.lease_seconds,
            stop=stop,
        )
        return WorkerThread(f"replicator {location.name}", replicator.run_forever, replicator.close, stop)

    def _is_site(self, name: str, named: set[str]) -> bool:
        return name in named or bool(self._context.tables.scan(f"{OPEN}{name}/", limit=1))

    def _store(self, name: str) -> Store:
        try:
            return self._locations.store(name)
        except NotFound as error:
            raise Unavailable(str(error)) from None
