"""The roles on real tables and topics, with a store in memory where the gateway would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

from memory_store import MemoryStore

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask
from tidegate.core.records import Bucket, Pool
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.object_processor import ObjectProcessor
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import BucketList, ListedBucket, chosen
from tidegate.lifecycle.buckets.populator import QueuePopulator
from tidegate.lifecycle.passes.bucket_pass import BucketPass, PassClock
from tidegate.lifecycle.passes.bucket_reading import read_buckets
from tidegate.lifecycle.passes.conductor import Conductor
from tidegate.lifecycle.passes.engines import open_engines
from tidegate.lifecycle.passes.listing_planner import ListingPlanner
from tidegate.lifecycle.passes.pass_lock import PassLock
from tidegate.lifecycle.passes.pass_watch import PassWatch
from tidegate.lifecycle.passes.plan_files import plan_folder
from tidegate.lifecycle.passes.planner import PassContext
from tidegate.lifecycle.topics import WORKERS, backlog, create_topics
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.placer import Placer
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Record, Store
from tidegate.settings import LifecycleSettings, Settings
from tidegate.workers.rate import InstallationRate

LOG, DELETION = "metadata-log", "deletion"
SECOND = 1_000_000_000


def rule_set(*rules: str) -> RuleSet:
    """From the insides of `Rule` elements."""
    body = "".join(
        f"<Rule><ID>r{number}</ID><Status>Enabled</Status>{rule}</Rule>" for number, rule in enumerate(rules)
    )
    return parse_lifecycle(f"<LifecycleConfiguration>{body}</LifecycleConfiguration>".encode())


DAYS = "<Filter/><Expiration><Days>1</Days></Expiration>"


class LifecyclePlace:
    def __init__(self, data: Path) -> None:
        self.tables = SqliteTables(data / "tables.db")
        self.topics = FileTopics(data / "topics", lease_seconds=30)
        self.topics.create(LOG, 2)
        self.topics.create(DELETION, 1)
        create_topics(self.topics)
        settings = Settings()
        self.settings = LifecycleSettings(engine="listing", day_seconds=100, listing_limit=5)
        self.registry = Registry(self.tables, Vault.open(data), data, settings)
        self.stores: dict[str, MemoryStore] = {}
        self.stop = Flag()
        self.data = data
        self._closing: list[Callable[[], None]] = []

    def pool(self, name: str = "pool", *, backend: str = "memory") -> MemoryStore:
        """A pool whose store is in memory."""
        made = self.registry.create_pool(name, now=1.0)
        self.tables.put(Pool.PREFIX + name, replace(made, backend=backend).to_json())
        access_key, _ = self.registry.service_key(name, now=1.0)
        self.stores[access_key] = MemoryStore()
        return self.stores[access_key]

    def bucket(self, name: str, rules: RuleSet | None = None, pool: str = "pool") -> Bucket:
        bucket = self.registry.create_bucket(name, pool, now=1.0)
        if rules is not None:
            self.tables.put(LIFECYCLE + bucket.uid, rules.to_json())
            BucketList(self.tables).refresh(ListedBucket("owner", bucket.uid, name))
        return bucket

    def open_stores(self) -> Stores:
        def open_store(access_key: str, secret: str) -> Store:
            return self.stores[access_key]

        return Stores(self.registry, open_store)

    # --- roles -----------------------------------------------------------------------------------

    def populator(self) -> QueuePopulator:
        populator = QueuePopulator(self.tables, self.topics, log_topic=LOG)
        self._closing.append(populator.close)
        return populator

    def around(self, **lifecycle: Any) -> PassContext:
        settings = Settings(lifecycle=self.settings.model_dump() | lifecycle)
        return PassContext(self.tables, self.topics, self.open_stores(), settings, self.data, "http://127.0.0.1:1")

    def conductor(self, **lifecycle: Any) -> Conductor:
        around = self.around(**lifecycle)
        return Conductor(self.tables, self.topics, around.settings.lifecycle, open_engines(around, stop=self.stop))

    def plan(self, *, now: float, pass_id: str = "pass", seconds: float = 3600) -> dict[str, BucketPass]:
        """Lists the buckets and publishes what is due, as a pass does; nothing is carried out. By name."""
        planner, now_ns = ListingPlanner(self.around()), int(now * SECOND)
        kept = KeptLease(PassLock(self.tables, seconds=60), seconds=60)
        watch = PassWatch(stop=self.stop, lock=kept, seconds=seconds, cancel=planner.cancel)
        known = read_buckets(self.tables, self.open_stores(), self.settings, chosen(self.tables), now_ns=now_ns)
        folder = plan_folder(self.data, pass_id)
        buckets = planner.plan(list(known), PassClock(now_ns, now_ns, 0, 0, 0, 0, 0), folder, watch)
        planner.publish(folder, pass_id=pass_id, watch=watch)
        return {bucket.bucket.name: bucket for bucket in buckets}

    @contextmanager
    def working(self) -> Iterator[None]:
        """An object processor beside the test."""
        ended = Flag()

        def work() -> None:
            processor = self.object_processor()
            while not ended.is_set():
                processor.run_once(0.05)
            processor.close()

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def finish(self) -> None:
        """Carries out what is published."""
        processor = self.object_processor()
        while backlog(self.topics):
            processor.run_once()
        processor.close()

    def object_processor(self, per_second: float = 0, *, hold_failed: bool = False) -> ObjectProcessor:
        executor = ThreadPoolExecutor(2)
        made = ObjectProcessor(
            self.tables,
            self.topics,
            self.open_stores(),
            self.settings,
            Placer(self.tables, CopyProgress(self.tables, self.topics, deletion_topic=DELETION), self.open_stores()),
            rate=InstallationRate(self.tables, WORKERS, per_second),
            executor=executor,
            threads=2,
            lease_seconds=10.0,
            stop=self.stop,
            hold_failed=hold_failed,
        )
        self._closing += [executor.shutdown, made.close]
        return made

    # --- what happened ---------------------------------------------------------------------------

    def log(self, kind: EventKind, bucket: Bucket, **attributes: str) -> None:
        event = Event(
            1, kind, bucket.pool, bucket.name, bucket.uid, owner="owner", attributes=tuple(attributes.items())
        )
        self.topics.append(LOG, [Record(bucket.name, event.to_bytes())])

    def listed(self) -> list[tuple[str, str]]:
        return [(bucket.name, bucket.uid) for bucket in BucketList(self.tables).all()]

    def values(self, topic: str) -> list[bytes]:
        bounds = enumerate(self.topics.bounds(topic))
        return [
            message.value
            for partition, (first, following) in bounds
            for message in (self.topics.read(topic, partition, first, following - first) if following > first else [])
        ]

    def object_tasks(self) -> list[ObjectTask]:
        return [ObjectTask.from_bytes(value) for value in self.values(OBJECT_TASKS_TOPIC)]

    def audits(self) -> list[AuditRecord]:
        return AuditTrail(self.topics).newest(10_000, lambda record: True)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()
        self.topics.close()
        self.tables.close()
