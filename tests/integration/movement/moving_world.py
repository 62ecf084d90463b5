"""A pool whose objects move to a second store, by the requests that workers send to a gateway."""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

from running_service import PoolKey, RunningService, s3_client
from second_store import SecondStore

from tidegate.assembly import open_tables, open_topics
from tidegate.core import copies, sigv4
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.placements import PLACEMENTS, Placement
from tidegate.core.records import Bucket
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import restore
from tidegate.topic_pages import appended_since


class MovingWorld:
    def __init__(self, service: RunningService, key: PoolKey, store: SecondStore, location: str = "cold") -> None:
        self.service = service
        self.key = key
        self.store = store
        self.location = location
        self.s3: Any = service.s3(key)
        self.cold: Any = s3_client(store.url, PoolKey("", store.access_key, store.secret_key))
        self.prefix = f"{key.pool}-{location}/"
        self._add_location()

    @cached_property
    def settings(self) -> Any:
        return restore((self.service.data / "run" / "settings.json").read_text())

    def _add_location(self) -> None:
        with closing(open_tables(self.settings, self.service.data)) as tables:
            record = Location(
                name=self.location,
                endpoint=self.store.url,
                bucket=self.store.bucket,
                access_key=self.store.access_key,
                secret=Vault.open(self.service.data).seal(self.store.secret_key),
                created_at=time.time(),
                prefix=self.prefix,
                storage_classes=(self.location.upper(),),
            )
            tables.put(Location.PREFIX + self.location, record.to_json())

    @cached_property
    def worker_key(self) -> tuple[str, str]:
        with closing(open_tables(self.settings, self.service.data)) as tables:
            registry = Registry(tables, Vault.open(self.service.data), self.service.data, self.settings)
            return registry.service_key(self.key.pool, now=time.time())

    def placements(self, bucket: str = "") -> list[Placement]:
        with closing(open_tables(self.settings, self.service.data)) as tables:
            found = [Placement.from_json(text) for _, text in tables.scan(PLACEMENTS, limit=100_000)]
        return [record for record in found if not bucket or record.bucket == bucket]

    def pending(self, bucket: str) -> list[PendingDelete]:
        """What was sent to deletion."""
        with closing(open_topics(self.settings, self.service.data)) as topics:
            topic = self.settings.deletion.topic
            if topic not in topics.names():
                return []
            sent = [
                PendingDelete.from_bytes(message.value)
                for message in appended_since(topics, topic, [0] * len(topics.bounds(topic)))
            ]
        return [pending for pending in sent if pending.bucket == bucket]

    def bucket(self, name: str, versioning: str = "") -> str:
        self.s3.create_bucket(Bucket=name)
        if versioning:
            self.set_versioning(name, versioning)
        return name

    def set_versioning(self, name: str, versioning: str) -> None:
        self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})

    def replicate(self, bucket: str, prefix: str) -> None:
        """Gives the bucket a rule for the keys that begin so."""
        self.cold.create_bucket(Bucket="copies")
        self.cold.put_bucket_versioning(Bucket="copies", VersioningConfiguration={"Status": "Enabled"})
        rule = {
            "ID": "r",
            "Priority": 1,
            "Filter": {"Prefix": prefix},
            "Status": "Enabled",
            "DeleteMarkerReplication": {"Status": "Disabled"},
            "Destination": {"Bucket": "arn:aws:s3:::copies", "StorageClass": self.location},
        }
        configuration = {"Role": "r", "Rules": [rule]}
        self.s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration=configuration)

    def record(self, bucket: str, key: str, version_id: str, status: Status) -> None:
        """Notes down what became of a version's replication."""
        with closing(open_tables(self.settings, self.service.data)) as tables:
            uid = Bucket.from_json(tables.get(Bucket.PREFIX + bucket) or "").uid
            sites = (SiteState(self.location, "copies", status, 1.0),)
            made = ReplicationRecord(self.key.pool, bucket, uid, key, version_id, 1, 1.0, sites=sites)
            tables.put(made.entry, made.to_json())

    # --- what workers do -------------------------------------------------------------------------

    def copy(self, bucket: str, key: str, version_id: str = "") -> dict[str, Any]:
        """Copies the data to the second store; gives what a request to place it says."""
        named = {"VersionId": version_id} if version_id else {}
        found = self.s3.get_object(Bucket=bucket, Key=key, **named)
        data_key = f"{self.prefix}{self.key.pool}/{secrets.token_hex(16)}"
        with closing(open_tables(self.settings, self.service.data)) as tables:
            tables.put(copies.entry_of(self.location, data_key), "{}")
        put = self.cold.put_object(Bucket=self.store.bucket, Key=data_key, Body=found["Body"].read())
        return {
            "location": self.location,
            "data_key": data_key,
            "data_etag": put["ETag"].strip('"'),
            "storage_class": self.location.upper(),
            "etag": found["ETag"].strip('"'),
            "size": found["ContentLength"],
            "last_modified": found["LastModified"].isoformat(),
        }

    def move(self, bucket: str, key: str, version_id: str = "") -> str:
        """The outcome."""
        return self.place(bucket, key, version_id, self.copy(bucket, key, version_id))

    def place(self, bucket: str, key: str, version_id: str, request: Mapping[str, Any]) -> str:
        """Asked again where it is unknown how it ended, as workers do."""
        query = {"tidegate-placement": ""} | ({"versionId": version_id} if version_id else {})
        body = json.dumps(request).encode()
        status, answer = self.ask("PUT", bucket, key, query, body=body)
        tries = 1
        while status == 503 and tries < 5:
            time.sleep(0.5)
            status, answer = self.ask("PUT", bucket, key, query, body=body)
            tries += 1
        assert status == 200, (status, answer)
        self.forget_copy(request["data_key"])
        outcome = str(json.loads(answer)["outcome"])
        return "placed" if tries > 1 and outcome == "already" else outcome

    def forget_copy(self, data_key: str) -> None:
        """As workers do when they know how a copy ended, or have sent its data to deletion."""
        with closing(open_tables(self.settings, self.service.data)) as tables:
            tables.delete(copies.entry_of(self.location, data_key))

    def move_back(self, bucket: str, key: str, version_id: str = "") -> int:
        record = next(
            each
            for each in self.placements(bucket)
            if each.key == key and (each.version_id == version_id if version_id else each.is_current)
        )
        data = self.cold.get_object(Bucket=self.store.bucket, Key=record.data_key)["Body"].read()
        query = {"tidegate-data": ""} | ({"versionId": version_id} if version_id else {})
        headers = {"x-amz-tidegate-data-key": record.data_key}
        return self.ask("PUT", bucket, key, query, body=data, headers=headers)[0]

    def delete_original(self, bucket: str, key: str, version_id: str) -> int:
        return self.ask("DELETE", bucket, key, {"tidegate-original": "", "versionId": version_id})[0]

    def ask(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Mapping[str, str],
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        credentials: tuple[str, str] | None = None,
    ) -> tuple[int, bytes]:
        host = urlsplit(self.service.s3_url).netloc
        path = f"/{bucket}/{quote(key, safe='/-_.~')}"
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        plain = {"host": host, **(headers or {})}
        access_key, secret = credentials or self.worker_key
        added = sigv4.sign(
            method.encode(),
            path.encode(),
            asked.encode(),
            {name.encode(): value.encode() for name, value in plain.items()},
            access_key=access_key,
            secret=secret,
            region="us-east-1",
            payload="UNSIGNED-PAYLOAD",
            now=time.time(),
        )
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            signed = plain | {name.decode(): value.decode() for name, value in added.items()}
            connection.request(method, f"{path}?{asked}", body=body or None, headers=signed)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
