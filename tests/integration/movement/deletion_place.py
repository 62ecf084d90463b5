"""Deletion on real tables and topics, with a real store behind the location `cold`."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from threading import Event as Flag
from typing import Any

from deletion_store import DeletionStore
from prometheus_client import REGISTRY
from running_service import RunningService

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.s3_store import S3Store
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.deletion_records import DeletionRecord
from tidegate.core.errors import NotFound
from tidegate.core.pending_deletes import Component, DataType, PendingDelete, owner_metadata
from tidegate.core.placements import Placement
from tidegate.movement.deletion import Deleter
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.movement.deletion_queries import DeletionDesk
from tidegate.movement.deletion_worker import DeletionWorker
from tidegate.movement.in_use import Owners
from tidegate.movement.pending_deletes import BelievedData, FirstPhase, record_of, send_pending
from tidegate.movement.topics import create_deletion_topics
from tidegate.ports import Store
from tidegate.settings import Settings

LEASE_SECONDS = 10.0


class _Locations:
    def __init__(self, store: DeletionStore) -> None:
        self._store = S3Store(store.url, store.access_key, store.secret_key)
        self._bucket = store.bucket

    def store(self, name: str) -> Store:
        if name != "cold":
            raise NotFound(f"there is no location {name}")
        return self._store  # type: ignore[return-value]

    def bucket(self, name: str) -> str:
        return self._bucket

    def prefix(self, name: str) -> str:
        return "tide/"

    def close(self) -> None:
        self._store.close()


class _NoPools:
    def of_pool(self, pool: str) -> Store:
        raise NotFound(f"there is no pool {pool}")


class DeletionPlace:
    def __init__(self, directory: Path, store: DeletionStore, **deletion: Any) -> None:
        self.tables = SqliteTables(directory / "tables.db")
        self.topics = FileTopics(directory / "topics", lease_seconds=LEASE_SECONDS)
        self.settings = Settings(deletion={"record_seconds": 0} | deletion)
        create_deletion_topics(self.topics, self.settings.deletion)
        self.store = store
        self.believed = BelievedData()
        self.owners = Owners(self.tables)
        self.locations = _Locations(store)
        self.stop = Flag()
        self._workers: list[DeletionWorker] = []

    def worker(self) -> DeletionWorker:
        deleter = Deleter(self.tables, _NoPools(), self.locations, self.owners, self.believed)
        made = DeletionWorker(
            self.tables, self.topics, deleter, self.settings.deletion, lease_seconds=LEASE_SECONDS, stop=self.stop
        )
        self._workers.append(made)
        return made

    def desk(self) -> DeletionDesk:
        return DeletionDesk(self.tables, self.topics, self.settings)

    def first_phase(self) -> FirstPhase:
        return FirstPhase(self.topics, self.settings.deletion.topic, self.believed)

    def put(self, key: str = "key", version_id: str = "null", body: bytes = b"data") -> PendingDelete:
        """Data in the location, and a pending delete that is right for it."""
        owner = {"pool": "pool", "bucket": "photos", "bucket_uid": "uid", "key": key, "version_id": version_id}
        data_key = f"tide/pool/uid/{uuid.uuid4().hex}"
        metadata = {
            name.removeprefix("x-amz-meta-"): value
            for name, value in owner_metadata(Component.PLACEMENT, **owner).items()
        }
        answer = self.store.client().put_object(Bucket=self.store.bucket, Key=data_key, Body=body, Metadata=metadata)
        return PendingDelete(
            component=Component.PLACEMENT,
            data_type=DataType.LOCATION,
            sent_ns=time.time_ns(),
            location="cold",
            data_key=data_key,
            etag=answer["ETag"].strip('"'),
            **owner,
        )

    def place(self, pending: PendingDelete) -> Placement:
        """A placement that refers to the data."""
        placement = Placement(
            id="id",
            pool=pending.pool,
            bucket=pending.bucket,
            bucket_uid=pending.bucket_uid,
            key=pending.key,
            version_id=pending.version_id,
            location=pending.location,
            data_key=pending.data_key,
            size=4,
            etag="e",
            modified="",
            last_modified=1.0,
            storage_class="COLD",
            moved_ns=1,
        )
        self.tables.put(placement.entry, placement.to_json())
        return placement

    def send(self, *pendings: PendingDelete) -> None:
        assert send_pending(self.topics, self.settings.deletion.topic, pendings) == list(pendings)

    def send_raw(self, value: bytes) -> None:
        record = record_of(self.put())
        self.topics.append(self.settings.deletion.topic, [type(record)(record.key, value)])

    def finish(self) -> None:
        """Works until nothing is left that could be done now."""
        worker = self.worker()
        while worker.run_once(0.3):
            pass
        worker.close()

    def holds(self, pending: PendingDelete) -> bool:
        return pending.data_key in self.store.keys(pending.data_key)

    def records(self) -> list[DeletionRecord]:
        return DeletionAudit(self.topics).newest(1000, lambda record: True)

    def outcomes(self) -> list[str]:
        return [record.outcome.value for record in self.records()]

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self.locations.close()
        self.topics.close()
        self.tables.close()


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"tidegate_deletion_{name}_total", labels) or 0.0


def sent_in(service: RunningService) -> float:
    """The pending deletes of data in locations that all processes of a service have sent."""
    with service.api() as api:
        lines = api.get("/metrics").text.splitlines()
    name = 'tidegate_deletion_sent_total{data="location"} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))
