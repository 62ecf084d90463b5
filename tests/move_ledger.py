"""What an installation with moved objects holds, everywhere: records, data in a location, and the pool's own store.

`assert_exact` compares all of it when nothing is under way any more. No data lies anywhere without a reference, and
nothing that is referred to is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from direct_backend import direct_backend
from running_service import PoolKey, RunningService, s3_client
from second_store import SecondStore

from tidegate.assembly import open_tables, open_topics
from tidegate.core.copies import COPIES, Copy
from tidegate.core.placements import PLACEMENTS, Placement
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings, restore
from tidegate.table_pages import every

PATIENCE = 240.0
Version = tuple[str, str, str]


class Ledger:
    """A pool of the service, and a location that this makes in a second store."""

    def __init__(self, service: RunningService, key: PoolKey, store: SecondStore, location: str) -> None:
        self.service, self.key, self.store, self.location = service, key, store, location
        self.s3: Any = service.s3(key)
        self.prefix = f"{key.pool}-{location}/"
        self.storage_class = location.upper()
        service.cli(
            "location", "create", location, "--endpoint", store.url, "--bucket", store.bucket, "--prefix", self.prefix,
            "--access-key", store.access_key, "--secret-key-file", str(store.secret_file),
            "--storage-class", self.storage_class,
        )  # fmt: skip

    @cached_property
    def settings(self) -> Settings:
        return restore((self.service.data / "run" / "settings.json").read_text())

    @cached_property
    def tables(self) -> Tables:
        return open_tables(self.settings, self.service.data)

    @cached_property
    def topics(self) -> Topics:
        return open_topics(self.settings, self.service.data)

    def close(self) -> None:
        for name in ("tables", "topics"):
            if name in self.__dict__:
                self.__dict__[name].close()

    def placements(self) -> list[Placement]:
        found = (Placement.from_json(text) for _, text in every(self.tables, PLACEMENTS))
        return [record for record in found if record.pool == self.key.pool]

    def copies(self) -> list[Copy]:
        found = (Copy.from_json(text) for _, text in every(self.tables, COPIES))
        return [copy for copy in found if copy.location == self.location]

    def data_keys(self) -> set[str]:
        """What lies in the location."""
        return self.store.keys(prefix=self.prefix)

    def deletion(self) -> dict[str, Any]:
        with self.service.api() as api:
            found: dict[str, Any] = api.get("/api/v1/deletion").raise_for_status().json()
        return found

    def wait_until_deleted(self) -> None:
        """Until nothing is pending any more."""
        wait_until(lambda: self.deletion()["in_flight"] == 0, lambda: f"deletion: {self.deletion()}")
        assert self.deletion()["dead"] == 0, self.deletion()

    # --- all of it -------------------------------------------------------------------------------

    def assert_exact(self, buckets: Iterable[str]) -> None:
        # A version shows that it has moved before whoever copied it has noted that down.
        wait_until(lambda: not self.copies(), lambda: f"copies: {self.copies()}")
        self.wait_until_deleted()
        records = self.placements()
        referred = {record.data_key for record in records if record.location == self.location}
        assert self.data_keys() - referred == set(), "orphans in the location"
        assert referred - self.data_keys() == set(), "data that is missing in the location"
        for bucket in buckets:
            self._assert_records(bucket, [record for record in records if record.bucket == bucket])

    def _assert_records(self, bucket: str, records: list[Placement]) -> None:
        listed = self._versions(self.s3, bucket)
        shown = {(key, version_id) for key, version_id, _, _ in listed}
        valid = {(record.key, record.version_id): record for record in records if not record.is_void}
        assert set(valid) - shown == set(), "records of versions that are not there"
        assert [record for record in records if record.has_original] == [], "originals that are still there"
        for key, version_id, storage_class, _ in listed:
            record = valid.get((key, version_id))
            lies_there = record is not None and record.location == self.location
            assert (storage_class == self.storage_class) == lies_there, (bucket, key, version_id, storage_class, record)
        stubs = {(record.key, record.stub_id or "null") for record in records if record.has_stub}
        backend, credential = direct_backend(self.service, self.key.pool)
        stored = self._versions(s3_client(backend, credential), bucket)
        found = {(key, version_id) for key, version_id, _, _ in stored}
        wanted = (shown - set(valid)) | stubs
        assert found - wanted == set(), f"leftovers in the store of {bucket}"
        assert wanted - found == set(), f"missing in the store of {bucket}"
        empty = {
            (record.key, record.stub_id or "null") for record in records if record.has_stub and not _is_back(record)
        }
        full = {(key, version_id) for key, version_id, _, size in stored if size and (key, version_id) in empty}
        assert full == set(), "stubs with data in them"

    @staticmethod
    def _versions(client: Any, bucket: str) -> list[tuple[str, str, str, int]]:
        """Key, id, storage class and size of all versions that are no markers."""
        pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
        return [
            (entry["Key"], entry["VersionId"], entry.get("StorageClass", "STANDARD"), entry["Size"])
            for page in pages
            for entry in page.get("Versions", [])
        ]


def _is_back(record: Placement) -> bool:
    """Moved back, or of no version any more."""
    return not record.location


def wait_until(true: Callable[[], bool], what: Callable[[], str] | str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in time: {what if isinstance(what, str) else what()}"
        time.sleep(0.2)
