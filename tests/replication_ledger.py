"""A pool whose buckets are replicated to real stores, and what all of them hold: compared by `verify`, and by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from typing import Any

from metadata_log import settings_of
from move_ledger import wait_until
from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate.assembly import open_store, open_tables, open_topics
from tidegate.core.listings import ListedVersion
from tidegate.core.replication.messages import POPULATOR_GROUP
from tidegate.core.replication.records import ReplicationRecord, entries_of_key
from tidegate.pipeline.replication.any_order import read, versions_of
from tidegate.pipeline.walk.key_ranges import KeyRange
from tidegate.replication.queries import ReplicationQueries
from tidegate.table_pages import every

# The bucket at each site.
COPIES = "copies"
_VERIFY_ATTEMPTS = 12
_RESERVED = "tidegate-"
_READERS = 8


@dataclass(frozen=True)
class Held:
    """What a store holds of a version: of a marker nothing more. Ids and ETags differ from store to store."""

    is_marker: bool
    digest: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    content_type: str = ""


class ReplicationLedger:
    """Makes a location of each store, by the name of its site, with a versioned bucket for copies."""

    def __init__(self, service: RunningService, key: PoolKey, sites: Mapping[str, SecondStore]) -> None:
        self.service, self.key, self.sites = service, key, sites
        self.s3: Any = service.s3(key, retries=10, max_pool_connections=32)
        for site, store in sites.items():
            service.cli(
                "location", "create", site, "--endpoint", store.url, "--bucket", store.bucket, "--prefix", f"{site}/",
                "--access-key", store.access_key, "--secret-key-file", str(store.secret_file),
            )  # fmt: skip

    # --- buckets ---------------------------------------------------------------------------------

    def make_bucket(self, bucket: str, *, copies: str = "", rules: Sequence[dict[str, Any]] | None = ()) -> None:
        """A versioned one, and those for its copies. By default one rule sends all to all sites; None: no rule."""
        self.s3.create_bucket(Bucket=bucket)
        enabled = {"Status": "Enabled"}
        self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
        for store in self.sites.values():
            client = store.client()
            client.create_bucket(Bucket=copies or COPIES)
            client.put_bucket_versioning(Bucket=copies or COPIES, VersioningConfiguration=enabled)
        if rules is not None:
            self.put_rules(bucket, rules or [self.rule(copies=copies)])

    def put_rules(self, bucket: str, rules: Sequence[dict[str, Any]]) -> None:
        configuration = {"Role": "arn:aws:iam::000000000000:role/replication", "Rules": list(rules)}
        self.s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration=configuration)

    def rule(
        self,
        *,
        sites: Sequence[str] = (),
        copies: str = "",
        prefix: str = "",
        existing: bool = False,
        priority: int = 1,
    ) -> dict[str, Any]:
        found = {
            "ID": "copies",
            "Priority": 1,
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "DeleteMarkerReplication": {"Status": "Enabled"},
            "Destination": {
                "Bucket": f"arn:aws:s3:::{copies or COPIES}",
                "StorageClass": ",".join(sites or self.sites),
            },
        }
        if existing:
            found["ExistingObjectReplication"] = {"Status": "Enabled"}
        return found

    # --- statuses --------------------------------------------------------------------------------

    def status(self, bucket: str) -> dict[str, dict[str, Any]]:
        """By site."""
        with self.service.api() as api:
            found = api.get("/api/v1/replication", params={"bucket": bucket}).raise_for_status().json()
        return {each["site"]: each for each in found}

    def counts(self, bucket: str) -> dict[str, tuple[int, int, int]]:
        """By site: pending, completed, failed."""
        return {
            site: (each["pending"], each["completed"], each["failed"]) for site, each in self.status(bucket).items()
        }

    def wait_for_counts(self, bucket: str, wanted: dict[str, tuple[int, int, int]]) -> None:
        wait_until(lambda: self.counts(bucket) == wanted, lambda: f"{self.counts(bucket)}, not {wanted}")

    def wait_until_arrived(self, bucket: str, *sites: str) -> None:
        """Until the populator has read all, and nothing is pending or has failed at these sites."""

        def has_arrived() -> bool:
            counts = self.counts(bucket)
            chosen = sites or tuple(self.sites)
            return self.is_populated() and all(counts.get(site, (0, 0, 0))[::2] == (0, 0) for site in chosen)

        wait_until(has_arrived, lambda: f"not arrived: {self.counts(bucket)}")

    def is_populated(self) -> bool:
        """Whether replication has read the metadata log to its end."""
        settings = settings_of(self.service)
        with closing(open_topics(settings, self.service.data)) as topics:
            return topics.lag(settings.metalog.topic, POPULATOR_GROUP) == 0

    # --- jobs ------------------------------------------------------------------------------------

    def job(self, kind: str, bucket: str, *, entries: int = 20, **options: Any) -> dict[str, Any]:
        """A backfill or verification that has ended."""
        with self.service.api() as api:
            asked = api.post("/api/v1/replication/jobs", json={"kind": kind, "bucket": bucket, **options})
            where = f"/api/v1/replication/jobs/{asked.raise_for_status().json()['id']}"

            def view() -> dict[str, Any]:
                found: dict[str, Any] = api.get(where, params={"entries": entries}).raise_for_status().json()
                return found

            wait_until(lambda: view()["status"] in ("done", "failed"), lambda: str(view()))
            found = view()
        assert found["status"] == "done", found
        return found

    def verify(self, bucket: str, **options: Any) -> tuple[int, int, int]:
        """Missing, different and extra."""
        found = self.job("verify", bucket, **options)
        return found["missing"], found["different"], found["extra"]

    def assert_verified(self, bucket: str) -> None:
        """What was replaced at a site is an extra until it is deleted, which comes a little later."""
        for _ in range(_VERIFY_ATTEMPTS):
            found = self.job("verify", bucket)
            if not (found["missing"] or found["different"] or found["extra"]):
                assert found["compared"], found
                return
            assert not found["different"], self._told_of(bucket, found["first_different"][0]["key"], found)
            time.sleep(2)
        raise AssertionError(found)

    def _told_of(self, bucket: str, key: str, found: dict[str, Any]) -> str:
        """What source, records and sites say of the order of a key's versions, each the newest first."""
        lines = [str({**found, "first_different": found["first_different"][:5]})]
        with closing(open_store(self.service.s3_url, self.key.access_key, self.key.secret_key)) as store:
            lines.append(f"source: {[each.version_id for each in versions_of(store, bucket, key)]}")
        with closing(open_tables(settings_of(self.service), self.service.data)) as tables:
            texts = every(tables, entries_of_key(ReplicationQueries(tables).uid_of(bucket), key))
            records = [ReplicationRecord.from_json(text) for _, text in texts]
        for record in sorted(records, key=lambda record: -record.ts_ns):
            copies = {state.site: (state.replica_version_id, state.since) for state in record.sites}
            lines.append(f"{record.version_id} {record.ts_ns} {copies}")
        for site, store_of_site in self.sites.items():
            with closing(open_store(store_of_site.url, store_of_site.access_key, store_of_site.secret_key)) as store:
                lines.append(f"{site}: {[each.version_id for each in versions_of(store, COPIES, key)]}")
        return "\n".join(lines)

    # --- what lies there -------------------------------------------------------------------------

    def assert_alike(self, bucket: str, *, copies: str = "", sites: Sequence[str] = ()) -> None:
        """Byte by byte, version by version, in their order."""
        wanted = held_by(self.s3, self.service.s3_url, self.key, bucket)
        for site in sites or self.sites:
            store = self.sites[site]
            credential = PoolKey("", store.access_key, store.secret_key)
            found = held_by(store.client(), store.url, credential, copies or COPIES)
            assert found.keys() == wanted.keys(), (site, found.keys() ^ wanted.keys())
            for key in wanted:
                assert found[key] == wanted[key], (site, key)


def held_by(client: Any, url: str, key: PoolKey, bucket: str) -> dict[str, list[Held]]:
    """By key, the newest first: as the store lists them, since its times tell no more than seconds."""
    found: dict[str, list[Held]] = {}
    with closing(open_store(url, key.access_key, key.secret_key)) as store:
        versions = list(read(store, bucket, KeyRange("")))
    with ThreadPoolExecutor(_READERS) as threads:
        for version, held in zip(versions, threads.map(partial(_held, client, bucket), versions), strict=True):
            found.setdefault(version.key, []).append(held)
    return found


def _held(client: Any, bucket: str, version: ListedVersion) -> Held:
    if version.is_marker:
        return Held(True)
    named = {"Bucket": bucket, "Key": version.key, "VersionId": version.version_id}
    got = client.get_object(**named)
    tags = client.get_object_tagging(**named)["TagSet"]
    return Held(
        False,
        md5(got["Body"].read(), usedforsecurity=False).hexdigest(),
        tuple(sorted((name, value) for name, value in got["Metadata"].items() if not name.startswith(_RESERVED))),
        tuple(sorted((tag["Key"], tag["Value"]) for tag in tags)),
        got["ContentType"],
    )
