"""A service that keeps what it deletes for good in a second store, and what tests ask of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError
from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate.assembly import open_tables
from tidegate.core.trash import TRASH, TrashRecord
from tidegate.ports import Tables
from tidegate.settings import restore

OBJECTS = int(os.environ.get("UNDO_OBJECTS", "200"))
PATIENCE = 250.0 + OBJECTS / 5
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
LOCATION = "trash"
GRACE_DAYS = 7


class UndoWorld:
    def __init__(self, service: RunningService, store: SecondStore, key: PoolKey) -> None:
        self.service = service
        self.store = store
        self.key = key
        self.s3: Any = service.s3(key)

    def bucket(self, name: str, *versioning: str) -> str:
        self.s3.create_bucket(Bucket=name)
        for state in versioning:
            self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": state})
        return name

    def expire_all(self, bucket: str, **rule: Any) -> None:
        """A rule by which every object is due at once."""
        full = {"ID": "wrong", "Status": "Enabled", "Filter": {}, **(rule or {"Expiration": {"Date": LONG_AGO}})}
        self.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [full]})

    def run_pass(self, bucket: str) -> dict[str, Any]:
        """The report of a pass that begins after this call."""
        with self.service.api() as api:
            asked = {"bucket": bucket, "engine": "listing"}
            pass_id = api.post("/api/v1/passes", json=asked).raise_for_status().json()["id"]
            found: dict[str, Any] = {}

            def has_ended() -> bool:
                answer = api.get(f"/api/v1/passes/{pass_id}")
                found.update(answer.json())
                return answer.status_code == 200 and found["ended_at"] is not None

            self.wait_until(has_ended, "the pass ends")
        return found

    def undelete(self, bucket: str, *options: str, prefix: str = "") -> dict[str, Any]:
        command = self.service.cli_command("undelete", f"s3://{bucket}/{prefix}", *options, "--json")
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def shown(self, bucket: str, key: str, version_id: str = "") -> dict[str, Any]:
        """All that a client sees of an object."""
        named = {"VersionId": version_id} if version_id else {}
        found = self.s3.get_object(Bucket=bucket, Key=key, **named)
        tags = self.s3.get_object_tagging(Bucket=bucket, Key=key, **named)["TagSet"]
        names = ("ETag", "ContentLength", "ContentType", "LastModified", "Metadata", "VersionId", "StorageClass")
        told = {name: found.get(name) for name in (*names, "CacheControl", "ContentDisposition", "ContentEncoding")}
        return told | {"Body": found["Body"].read(), "Tags": sorted((tag["Key"], tag["Value"]) for tag in tags)}

    def is_there(self, bucket: str, key: str, version_id: str = "") -> bool:
        try:
            self.s3.head_object(Bucket=bucket, Key=key, **({"VersionId": version_id} if version_id else {}))
            return True
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 405):
                raise
            return False

    def keys(self, bucket: str) -> set[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {entry["Key"] for page in pages for entry in page.get("Contents", [])}

    def history(self, bucket: str) -> list[tuple[str, str, bool, bool]]:
        """(key, id, is latest, is marker) as listings of versions show them, the newest of each key first."""
        page = self.s3.list_object_versions(Bucket=bucket)
        found = [(entry, False) for entry in page.get("Versions", [])]
        found += [(entry, True) for entry in page.get("DeleteMarkers", [])]
        found.sort(key=lambda pair: (pair[0]["Key"], not pair[0]["IsLatest"], -pair[0]["LastModified"].timestamp()))
        return [(entry["Key"], entry["VersionId"], entry["IsLatest"], marker) for entry, marker in found]

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        settings = restore((self.service.data / "run" / "settings.json").read_text())
        with closing(open_tables(settings, self.service.data)) as tables:
            yield tables

    def trash(self, bucket: str) -> list[TrashRecord]:
        with self.tables() as tables:
            found = [TrashRecord.from_json(text) for _, text in tables.scan(TRASH, limit=100_000)]
        return [record for record in found if record.placement.bucket == bucket]

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.service.log()[-5000:]}"
            time.sleep(0.2)


def undo_settings(store: SecondStore, **more: Any) -> dict[str, Any]:
    """Of a service whose trash is in the store."""
    return {
        "lifecycle.interval_seconds": 600,
        "lifecycle.day_seconds": 5,
        "deletion.grace_days": GRACE_DAYS,
        "deletion.trash_location": LOCATION,
        "deletion.record_seconds": 0.5,
        "deletion.reconsume_seconds": 1,
        f"locations.{LOCATION}.endpoint": store.url,
        f"locations.{LOCATION}.bucket": store.bucket,
        f"locations.{LOCATION}.prefix": "trash/",
        f"locations.{LOCATION}.access_key": store.access_key,
        f"locations.{LOCATION}.secret_key": store.secret_key,
    } | more
