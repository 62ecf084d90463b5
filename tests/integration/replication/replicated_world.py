"""A service whose buckets are replicated to two real stores, and what is known of each version."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from botocore.exceptions import ClientError
from metadata_log import settings_of
from move_ledger import wait_until
from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate.assembly import open_tables, open_topics
from tidegate.core.records import Bucket
from tidegate.core.replication.failed_keys import FAILED, FailedKey
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status, entries_of_key, entry_of
from tidegate.ports import Store, Tables, Topics
from tidegate.table_pages import every

SITES = ("one", "two")
PART_MB = 5
_SETTINGS = {
    "gateway.processes": 1,
    "replication.part_mb": PART_MB,
    "replication.retry_seconds": "[0.2, 0.5, 1.0, 2.0]",
    "deletion.record_seconds": 1,
}


class OnePool:
    """Stores of pools, of which there is one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_pool(self, pool: str) -> Store:
        return self._store


class ReplicatedWorld:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.service = RunningService(directory / "data", _SETTINGS)
        self.stores = {site: SecondStore(directory / site) for site in SITES}
        self._numbers = itertools.count(1)

    def start(self) -> Self:
        self.service.start()
        for site, store in self.stores.items():
            store.start()
            self.service.cli(
                "location", "create", site, "--endpoint", store.url, "--bucket", store.bucket, "--prefix", "cold/",
                "--access-key", store.access_key, "--secret-key-file", str(store.secret_file),
            )  # fmt: skip
        return self

    def stop(self) -> None:
        self.service.end()
        for store in self.stores.values():
            store.stop()

    # --- buckets ---------------------------------------------------------------------------------

    @cached_property
    def key(self) -> PoolKey:
        return self.service.create_pool("replicated")

    @cached_property
    def s3(self) -> Any:
        return self.service.s3(self.key)

    def at(self, site: str) -> Any:
        return self.stores[site].client()

    def bucket(
        self,
        *,
        sites: Sequence[str] = SITES,
        markers: bool = True,
        prefix: str = "",
        tag: tuple[str, str] | None = None,
    ) -> str:
        """A new bucket that is replicated to one of its name at each site."""
        name = f"b{next(self._numbers)}-replicated"
        enabled = {"Status": "Enabled"}
        for client in (self.s3, *(self.at(site) for site in sites)):
            client.create_bucket(Bucket=name)
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration=enabled)
        rule = {
            "ID": "all",
            "Priority": 1,
            "Status": "Enabled",
            "Filter": {"Tag": {"Key": tag[0], "Value": tag[1]}} if tag else {"Prefix": prefix},
            "DeleteMarkerReplication": {"Status": "Enabled" if markers and not tag else "Disabled"},
            "Destination": {"Bucket": f"arn:aws:s3:::{name}", "StorageClass": ",".join(sites)},
        }
        configuration = {"Role": "arn:aws:iam::1:role/r", "Rules": [rule]}
        self.s3.put_bucket_replication(Bucket=name, ReplicationConfiguration=configuration)
        return name

    def put(self, bucket: str, key: str, body: bytes, **options: Any) -> str:
        version: str = self.s3.put_object(Bucket=bucket, Key=key, Body=body, **options)["VersionId"]
        return version

    def delete(self, bucket: str, key: str) -> str:
        marker: str = self.s3.delete_object(Bucket=bucket, Key=key)["VersionId"]
        return marker

    # --- what is known of versions ---------------------------------------------------------------

    @cached_property
    def tables(self) -> Tables:
        return open_tables(settings_of(self.service), self.service.data)

    def topics(self) -> Any:
        return closing(self._topics())

    def _topics(self) -> Topics:
        return open_topics(settings_of(self.service), self.service.data)

    def uid(self, bucket: str) -> str:
        return Bucket.from_json(self.tables.get(Bucket.PREFIX + bucket) or "").uid

    def record(self, bucket: str, key: str, version: str) -> ReplicationRecord | None:
        text = self.tables.get(entry_of(self.uid(bucket), key, version))
        return ReplicationRecord.from_json(text) if text is not None else None

    def records(self, bucket: str, key: str) -> list[ReplicationRecord]:
        found = every(self.tables, entries_of_key(self.uid(bucket), key))
        return sorted((ReplicationRecord.from_json(text) for _, text in found), key=lambda record: record.ts_ns)

    def state(self, bucket: str, key: str, version: str, site: str) -> SiteState | None:
        record = self.record(bucket, key, version)
        return record.at(site) if record is not None else None

    def status(self, bucket: str, key: str, version: str, site: str) -> Status | None:
        state = self.state(bucket, key, version, site)
        return state.status if state is not None else None

    def wait_for(self, status: Status, bucket: str, key: str, version: str, *sites: str) -> None:
        for site in sites or SITES:
            wait_until(
                lambda site=site: self.status(bucket, key, version, site) is status,
                lambda site=site: f"{key} at {site}: {self.state(bucket, key, version, site)}",
            )

    def failures(self, bucket: str) -> set[FailedKey]:
        found = {FailedKey.of_entry(entry) for entry, _ in every(self.tables, FAILED)}
        return {failed for failed in found if failed.bucket == bucket}

    # --- what sites hold -------------------------------------------------------------------------

    def history(self, site: str, bucket: str, key: str) -> list[str]:
        """The versions of a key at a site, the oldest first: what they hold, or `deleted`."""
        return history(self.at(site), bucket, key)

    def wait_for_history(self, site: str, bucket: str, key: str, wanted: list[str]) -> None:
        wait_until(
            lambda: self.history(site, bucket, key) == wanted,
            lambda: f"{site}: {self.history(site, bucket, key)}, not {wanted}",
        )


def history(client: Any, bucket: str, key: str) -> list[str]:
    while True:
        try:
            return _history(client, bucket, key)
        except ClientError as error:  # a former copy was deleted since it was listed
            if error.response["Error"]["Code"] not in ("NoSuchKey", "NoSuchVersion"):
                raise


def _history(client: Any, bucket: str, key: str) -> list[str]:
    page = client.list_object_versions(Bucket=bucket, Prefix=key)
    entries = [
        *((entry, False) for entry in page.get("Versions", [])),
        *((entry, True) for entry in page.get("DeleteMarkers", [])),
    ]
    # Times tell no more than seconds; the ids of this store fall with time.
    ids = {entry["VersionId"]: is_marker for entry, is_marker in entries if entry["Key"] == key}
    return [
        "deleted"
        if ids[version]
        else client.get_object(Bucket=bucket, Key=key, VersionId=version)["Body"].read().decode()
        for version in sorted(ids, reverse=True)
    ]
