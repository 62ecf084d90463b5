"""Movers in the test's own process: the source is a pool behind a real gateway, the location a bare second store.

The gateway's part, which records placements, is played by a server that answers as it does and keeps what was asked.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event as Flag
from typing import Any

from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.s3_store import S3Store
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.assembly import TABLES_FILE
from tidegate.core.copies import COPIES, OF_TASK, Copy
from tidegate.core.copy_tasks import DATA_MOVER_TOPIC, CopyStatus, CopyTask
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.process import ServiceContext
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.copying import Copier
from tidegate.movement.location_threads import LocationThreads
from tidegate.movement.mover_threads import Movers
from tidegate.movement.mover_topics import MOVEMENT_RESULTS_TOPIC, create_topics
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Record, Store
from tidegate.settings import Settings
from tidegate.table_pages import every
from tidegate.workers.retry_policy import RetryPolicy

DELETION = "deletion"
PART_BYTES = 5 << 20


class PlacementDoor:
    """Answers requests for placements with `outcome`; `asked` are their paths and bodies."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.outcome = "placed"
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                door.asked.append((self.path, json.loads(body)))
                answer = json.dumps({"outcome": door.outcome, "reason": ""}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Locations:
    """Locations that a test adds and removes."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[Location, Store]] = {}

    def all(self) -> Sequence[Location]:
        return [location for location, _ in self.known.values()]

    def get(self, name: str) -> Location:
        return self.known[name][0]

    def store(self, name: str) -> Store:
        return self.known[name][1]


class MoverWorld:
    def __init__(
        self, service: RunningService, key: PoolKey, second: SecondStore, directory: Path, bucket: str
    ) -> None:
        self.second = second
        self.s3 = service.s3(key)
        self.s3.create_bucket(Bucket=bucket)
        self.bucket = bucket
        self.tables = SqliteTables(service.data / TABLES_FILE)
        self.topics = FileTopics(directory / "topics", lease_seconds=10.0)
        create_topics(self.topics)
        self.topics.create(DELETION, 2)
        self.door = PlacementDoor()
        text = self.tables.get(Bucket.PREFIX + bucket)
        assert text is not None
        self.record = Bucket.from_json(text)
        settings = Settings()
        registry = Registry(self.tables, Vault.open(service.data), service.data, settings)
        door = self.door

        class PlacingStore(S3Store):
            """Sends requests for placements to the door."""

            def place(self, bucket: str, key: str, version_id: str, request: Any) -> dict[str, Any]:
                with_keys = S3Store(door.url, "access", "secret")
                return with_keys.place(bucket, key, version_id, request)

        def open_store(access_key: str, secret: str) -> Store:
            return PlacingStore(service.s3_url, access_key, secret)

        self.stop = Flag()
        self._moving: list[LocationThreads] = []
        self.locations = Locations()
        self.stores = Stores(registry, open_store)
        self.progress = CopyProgress(self.tables, self.topics, deletion_topic=DELETION)
        self.context = ServiceContext(
            settings, service.data, service.s3_url, self.tables, self.topics, self.stores, self.stop
        )

    def location(self, name: str, *, url: str = "", prefix: str = "p/", concurrency: int = 4) -> Location:
        location = Location(
            name, url or self.second.url, self.second.bucket, self.second.access_key, "sealed", time.time() - 1,
            prefix=prefix, storage_classes=(name.upper(),), concurrency=concurrency,
        )  # fmt: skip
        store = S3Store(location.endpoint, self.second.access_key, self.second.secret_key)
        self.locations.known[name] = location, store
        return location

    def copier(self, stop: Flag | None = None) -> Copier:
        return Copier(
            self.tables,
            self.progress,
            self.stores,
            self.locations,
            part_bytes=PART_BYTES,
            at_a_time=8,
            stop=stop or Flag(),
        )

    def movers(self, *, delays: tuple[float, ...] = ()) -> LocationThreads:
        retries = RetryPolicy(delays=delays, tries=len(delays) + 1)
        movers = Movers(self.context, self.locations, self.progress, retries)
        threads = LocationThreads(movers.wanted, movers.thread, stop=self.stop)
        self._moving.append(threads)
        return threads

    def put(self, key: str, data: bytes, **options: Any) -> CopyTask:
        """An object, and the task to copy it to the location `cold`."""
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, **options)
        return self.task(key)

    def task(self, key: str, location: str = "cold", **fields: Any) -> CopyTask:
        (found,) = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=key)["Contents"]
        values: dict[str, Any] = {
            "owner": "", "bucket": self.bucket, "key": key, "version_id": "", "bucket_uid": self.record.uid,
            "location": location, "storage_class": location.upper(), "results_topic": MOVEMENT_RESULTS_TOPIC,
            "request_id": "test", "size": found["Size"], "etag": found["ETag"].strip('"'),
            "last_modified": found["LastModified"].isoformat(),
        }  # fmt: skip
        return CopyTask(**(values | fields))

    def publish(self, *tasks: CopyTask) -> None:
        self.topics.append(DATA_MOVER_TOPIC, [Record(task.key, task.to_bytes()) for task in tasks])

    def statuses(self) -> list[CopyStatus]:
        return [CopyStatus.from_bytes(value) for value in self._values(MOVEMENT_RESULTS_TOPIC)]

    def pending(self) -> list[PendingDelete]:
        found = [PendingDelete.from_bytes(value) for value in self._values(DELETION)]
        return [pending for pending in found if pending.bucket_uid == self.record.uid]

    def copies(self) -> list[Copy]:
        """Those of this test that have a record."""
        found = [Copy.from_json(text) for _, text in every(self.tables, COPIES)]
        return [copy for copy in found if copy.bucket_uid == self.record.uid]

    def task_entry(self, task: CopyTask) -> str | None:
        return self.tables.get(OF_TASK + task.id)

    def stored(self, data_key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.second.client().get_object(Bucket=self.second.bucket, Key=data_key)
        return found

    def _values(self, topic: str) -> list[bytes]:
        bounds = enumerate(self.topics.bounds(topic))
        return [
            message.value
            for partition, (first, following) in bounds
            if following > first
            for message in self.topics.read(topic, partition, first, following - first)
        ]

    def close(self) -> None:
        """With threads that a test which failed has left."""
        self.stop.set()
        for threads in self._moving:
            threads.close()
        self.door.close()
        self.stores.close()
        self.topics.close()
        self.tables.close()


def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
