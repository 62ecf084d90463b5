"""A failure that has expired from the list, at a running service: it is counted, told by the history, and retried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from move_ledger import wait_until
from running_service import RunningService

# Long enough to be seen in the list, and short enough to wait for.
LISTED_SECONDS = 15.0


def test_a_failure_that_has_left_the_list_is_found_in_the_history_and_can_be_retried(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    service = make_service(
        gateway__processes=1,
        lifecycle__enabled=False,
        replication__retry_seconds=[0.1],
        replication__failed_hours=LISTED_SECONDS / 3600,
    )
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("secret")
    given = ("--endpoint", "http://127.0.0.1:9", "--bucket", "copies", "--access-key", "KEY")
    service.cli("location", "create", "paris", *given, "--secret-key-file", str(secret))
    s3 = service.s3(service.create_pool("pool"))
    s3.create_bucket(Bucket="photos")
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    rule = {
        "ID": "all",
        "Priority": 1,
        "Status": "Enabled",
        "Filter": {},
        "DeleteMarkerReplication": {"Status": "Enabled"},
        "Destination": {"Bucket": "arn:aws:s3:::copies", "StorageClass": "paris"},
    }
    s3.put_bucket_replication(Bucket="photos", ReplicationConfiguration={"Role": "", "Rules": [rule]})
    version_id = s3.put_object(Bucket="photos", Key="a:b é", Body=b"data")["VersionId"]
    failed = {"Bucket": "photos", "Key": "a:b é", "VersionId": version_id, "StorageClass": "paris"}

    with service.api() as api:

        def listed() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = api.get("/_/crr/failed").raise_for_status().json()["Versions"]
            return found

        def history() -> list[tuple[str, str]]:
            found = api.get("/api/v1/replication/history", params={"bucket": "photos"}).raise_for_status().json()
            return [(record["status"], record["version_id"]) for record in found]

        def counts() -> tuple[int, int]:
            (site,) = api.get("/api/v1/replication", params={"bucket": "photos"}).raise_for_status().json()
            return site["pending"], site["failed"]

        wait_until(lambda: bool(listed()), lambda: f"the failure is not listed: {history()}")
        assert {name: listed()[0][name] for name in failed} == failed
        wait_until(lambda: not listed(), lambda: "the failure does not expire")
        assert history() == [("FAILED", version_id)]
        assert counts() == (0, 1)
        answer = api.post("/_/crr/failed", json=[failed]).raise_for_status().json()
        assert [(each["VersionId"], each["ReplicationStatus"]) for each in answer] == [(version_id, "PENDING")]
        wait_until(lambda: len(history()) == 3, lambda: str(history()))
        assert history() == [("FAILED", version_id), ("PENDING", version_id), ("FAILED", version_id)]
        wait_until(lambda: counts() == (0, 1), lambda: str(counts()))
