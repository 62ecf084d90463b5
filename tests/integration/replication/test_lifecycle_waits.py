"""Lifecycle leaves a version alone while its replication is pending, and deletes it when it has arrived."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from move_ledger import wait_until
from replication_ledger import COPIES, ReplicationLedger
from running_service import RunningService
from second_store import SecondStore

DAY = 1.0
BUCKET = "held"


def versions(client: Any, bucket: str) -> list[str]:
    """What a bucket holds, the newest first."""
    entries = client.list_object_versions(Bucket=bucket).get("Versions", [])
    return [
        client.get_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])["Body"].read().decode()
        for entry in entries
    ]


def outcomes(service: RunningService) -> dict[str, int]:
    return dict(service.cli("pass", "run", "--bucket", BUCKET)["outcomes"])


def test_a_noncurrent_version_is_kept_until_it_has_arrived_and_deleted_then(
    make_service: Callable[..., RunningService], make_store: Callable[..., SecondStore]
) -> None:
    service = make_service(lifecycle__engine="listing", lifecycle__day_seconds=DAY)
    store = make_store()
    ledger = ReplicationLedger(service, service.create_pool(BUCKET), {"north": store})
    ledger.make_bucket(BUCKET)
    service.run_cli("replication", "pause", "north").check_returncode()
    for body in (b"first", b"second"):
        ledger.s3.put_object(Bucket=BUCKET, Key="k", Body=body)
    expire = {"ID": "old", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
    ledger.s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [expire]})
    wait_until(lambda: ledger.counts(BUCKET).get("north") == (2, 0, 0), lambda: str(ledger.counts(BUCKET)))
    time.sleep(2 * DAY)
    assert outcomes(service) == {"SKIPPED_REPLICATION": 1}
    explained = service.cli("lifecycle", "explain", f"s3://{BUCKET}/k")
    assert "replication is pending" in str(explained)
    assert versions(ledger.s3, BUCKET) == ["second", "first"]

    service.run_cli("replication", "resume", "north").check_returncode()
    ledger.wait_until_arrived(BUCKET)
    time.sleep(2 * DAY)
    assert outcomes(service) == {"DONE": 1}
    assert versions(ledger.s3, BUCKET) == ["second"]
    assert versions(store.client(), COPIES) == ["second", "first"], "deletes by version id stay at home"
