"""A running service with short days, and what tests ask of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from running_service import PoolKey, RunningService

DAY = 10.0
NANOSECOND = 1e9
# A busy machine may be late; what matters is that it is never early.
PATIENCE = 250.0


class World:
    """Where no pass begins unless it is asked for, `asks` says that waiting is to ask for passes."""

    def __init__(self, service: RunningService, key: PoolKey, *, asks: bool = False) -> None:
        self.service = service
        self.key = key
        self._asks = asks
        self.s3 = service.s3(key)

    def bucket(self, name: str, *rules: dict[str, Any], versioning: str = "") -> str:
        self.s3.create_bucket(Bucket=name)
        if versioning:
            self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        if versioning == "Suspended":
            self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
        if rules:
            self.rules(name, *rules)
        return name

    def lockable_bucket(self, name: str) -> str:
        """Made anew if the pool's manager was quicker to make it, without locks."""
        for _ in range(20):
            self.s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
            try:
                self.s3.get_object_lock_configuration(Bucket=name)
                return name
            except ClientError:
                self.s3.delete_bucket(Bucket=name)
        raise AssertionError(f"{name} never got locks")

    def rules(self, bucket: str, *rules: dict[str, Any]) -> None:
        full = [{"ID": f"rule-{number}", "Status": "Enabled", "Filter": {}} | rule for number, rule in enumerate(rules)]
        self.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": full})

    def put(self, bucket: str, *keys: str, body: bytes = b"x", **options: Any) -> list[str]:
        """The version ids."""
        made = [self.s3.put_object(Bucket=bucket, Key=key, Body=body, **options) for key in keys]
        return [answer.get("VersionId", "") for answer in made]

    def keys(self, bucket: str) -> set[str]:
        return {entry["Key"] for entry in self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])}

    def versions(self, bucket: str) -> set[tuple[str, str]]:
        """(key, id) of every version that is no marker."""
        return self._listed_versions(bucket, "Versions")

    def markers(self, bucket: str) -> set[tuple[str, str]]:
        return self._listed_versions(bucket, "DeleteMarkers")

    def _listed_versions(self, bucket: str, kind: str) -> set[tuple[str, str]]:
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
        return {(entry["Key"], entry["VersionId"]) for page in pages for entry in page.get(kind, [])}

    def uploads(self, bucket: str) -> set[str]:
        listed = self.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return {entry["UploadId"] for entry in listed}

    def events(self, bucket: str, *operations: str) -> list[dict[str, Any]]:
        """All events of the bucket, the oldest first."""
        found: list[dict[str, Any]] = []
        query = {"bucket": bucket, "limit": "1000"}
        with self.service.api() as api:
            while True:
                page = api.get("/api/v1/metalog", params=query).raise_for_status().json()
                found += page["events"]
                if page["next"] == query.get("after"):
                    break
                query["after"] = page["next"]
        return [event for event in found if not operations or event["operation"] in operations]

    def audits(self, bucket: str) -> list[dict[str, Any]]:
        with self.service.api() as api:
            query = {"bucket": bucket, "limit": "10000"}
            found: list[dict[str, Any]] = api.get("/api/v1/audit", params=query).raise_for_status().json()
        return found

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.service.log()[-5000:]}"
            if self._asks:
                self.run_pass()
            time.sleep(0.3)

    def sleep_until_due(self) -> None:
        """What exists now is a day old then, also by listings, which tell whole seconds."""
        time.sleep(DAY + 1)

    def run_pass(self, **asked: Any) -> dict[str, Any]:
        """A pass that begins after this call: its report, when it has come to its end."""
        with self.service.api() as api:
            pass_id = api.post("/api/v1/passes", json=asked).raise_for_status().json()["id"]
            deadline = time.monotonic() + PATIENCE
            while True:
                answer = api.get(f"/api/v1/passes/{pass_id}")
                found: dict[str, Any] = answer.json()
                if answer.status_code == 200 and found["ended_at"] is not None:
                    return found
                assert time.monotonic() < deadline, f"the pass does not end: {self.service.log()[-5000:]}"
                time.sleep(0.1)

    def wait_for_pass(self) -> None:
        """Until a pass that begins after this call has come to its end."""
        report = self.run_pass()
        assert report["status"] in ("ok", "blocked"), report

    def passes(self) -> list[dict[str, Any]]:
        """The newest passes, the oldest of them first."""
        with self.service.api() as api:
            found: list[dict[str, Any]] = api.get("/api/v1/passes", params={"limit": 500}).raise_for_status().json()
        return found

    def reports_of(self, bucket: str) -> list[dict[str, Any]]:
        """What passes have to say of a bucket, the oldest first."""
        return [detail for report in self.passes() for detail in report["details"] if detail["bucket"] == bucket]

    def assert_waited(self, bucket: str, operation: str, since: dict[str, float], days: float = 1) -> None:
        """Each event of that operation came at least so many days after its key's time in `since`."""
        events = self.events(bucket, operation)
        assert events
        for event in events:
            waited = event["ts_ns"] / NANOSECOND - since[event["key"]]
            assert days * DAY <= waited < days * DAY + DAY + PATIENCE, event

    def put_times(self, bucket: str) -> dict[str, float]:
        """When each key was written last."""
        return {event["key"]: event["ts_ns"] / NANOSECOND for event in self.events(bucket, "put")}
