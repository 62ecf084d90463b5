"""Two real stores as sites: versions arrive in order with all that belongs to them, and statuses follow each step."""

from __future__ import annotations

from collections.abc import Callable

from replication_ledger import COPIES, ReplicationLedger, held_by
from running_service import PoolKey, RunningService
from second_store import SecondStore

BUCKET, LARGE = "steps", (11 << 20) + 3


def test_versions_arrive_in_order_with_all_that_belongs_to_them_and_statuses_follow_each_step(
    make_service: Callable[..., RunningService], make_store: Callable[..., SecondStore]
) -> None:
    service = make_service(
        gateway__processes=1,
        lifecycle__enabled=False,
        replication__part_mb=5,
        replication__retry_seconds=[0.2, 0.5, 1.0, 2.0],
        deletion__record_seconds=1,
    )
    stores = {"north": make_store(), "south": make_store()}
    ledger = ReplicationLedger(service, service.create_pool("steps"), stores)
    ledger.make_bucket(BUCKET)
    for site in stores:
        service.cli("replication", "pause", site)
    versions = put_versions(ledger)
    count = len(versions) + 1  # and the marker
    ledger.wait_for_counts(BUCKET, dict.fromkeys(stores, (count, 0, 0)))
    assert statuses(ledger, versions) == {"PENDING"}
    # One site alone is not all of them.
    service.cli("replication", "resume", "north")
    ledger.wait_for_counts(BUCKET, {"north": (0, count, 0), "south": (count, 0, 0)})
    assert statuses(ledger, versions) == {"PENDING"}
    service.cli("replication", "resume", "south")
    ledger.wait_for_counts(BUCKET, dict.fromkeys(stores, (0, count, 0)))
    assert statuses(ledger, versions) == {"COMPLETED"}
    ledger.assert_alike(BUCKET)
    for store in stores.values():
        assert held_by(store.client(), store.url, PoolKey("", store.access_key, store.secret_key), COPIES)
        large = store.client().head_object(Bucket=COPIES, Key="large")
        assert large["ContentLength"] == LARGE
        assert large["ETag"].strip('"').endswith("-3"), "it came in parts"
    # Tags that are changed later follow, and the version is pending until they have.
    service.cli("replication", "pause", "south")
    tags = {"TagSet": [{"Key": "later", "Value": "yes"}]}
    ledger.s3.put_object_tagging(Bucket=BUCKET, Key="large", Tagging=tags)
    ledger.wait_for_counts(BUCKET, {"north": (0, count, 0), "south": (1, count - 1, 0)})
    assert ledger.s3.head_object(Bucket=BUCKET, Key="large")["ReplicationStatus"] == "PENDING"
    service.cli("replication", "resume", "south")
    ledger.wait_for_counts(BUCKET, dict.fromkeys(stores, (0, count, 0)))
    ledger.assert_alike(BUCKET)
    # A delete of one version is not replicated, and its record goes.
    oldest = next(version_id for key, version_id in versions if key == "a/b")
    ledger.s3.delete_object(Bucket=BUCKET, Key="a/b", VersionId=oldest)
    ledger.wait_for_counts(BUCKET, dict.fromkeys(stores, (0, count - 1, 0)))
    found = ledger.job("verify", BUCKET)
    assert (found["missing"], found["different"], found["extra"]) == (0, 0, 2)
    assert {(each["site"], each["key"]) for each in found["first_extra"]} == {("north", "a/b"), ("south", "a/b")}


def put_versions(ledger: ReplicationLedger) -> list[tuple[str, str]]:
    """Of several keys, in one second; one is covered by a marker. Keys and ids of the objects."""
    s3, made = ledger.s3, []
    for number in range(3):
        for key in ("a", "a/b", "a-b é"):
            put = s3.put_object(
                Bucket=BUCKET,
                Key=key,
                Body=f"{key} {number}".encode(),
                Metadata={"number": str(number)},
                Tagging=f"n={number}&of=a%20b",
                ContentType="text/plain",
                CacheControl="no-store",
            )
            made.append((key, put["VersionId"]))
    s3.delete_object(Bucket=BUCKET, Key="a")
    upload = {"Bucket": BUCKET, "Key": "large"}
    of_upload = {**upload, "UploadId": s3.create_multipart_upload(**upload, Metadata={"is": "large"})["UploadId"]}
    half = LARGE // 2
    parts = [
        {"PartNumber": part, "ETag": s3.upload_part(**of_upload, PartNumber=part, Body=body)["ETag"]}
        for part, body in enumerate((b"x" * half, b"y" * (LARGE - half)), 1)
    ]
    completed = s3.complete_multipart_upload(**of_upload, MultipartUpload={"Parts": parts})
    return [*made, ("large", completed["VersionId"])]


def statuses(ledger: ReplicationLedger, versions: list[tuple[str, str]]) -> set[str]:
    """Those that clients see, by GET and HEAD."""
    found: set[str] = set()
    for key, version_id in versions:
        named = {"Bucket": BUCKET, "Key": key, "VersionId": version_id}
        found.add(ledger.s3.head_object(**named)["ReplicationStatus"])
        found.add(ledger.s3.get_object(**named)["ReplicationStatus"])
    return found
