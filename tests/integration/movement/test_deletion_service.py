"""The process `movement` of a running service: it deletes, waits while it is off, stands a kill, and purges."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from deletion_store import DeletionStore
from running_service import PoolKey, RunningService

from tidegate import settings as settings_module
from tidegate.assembly import open_tables, open_topics
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import Component, DataType, PendingDelete, owner_metadata
from tidegate.core.records import Bucket
from tidegate.movement.pending_deletes import send_pending
from tidegate.pools.vault import Vault
from tidegate.ports import Tables, Topics

MakeService = Callable[..., RunningService]
MODULE = "tidegate.movement.serve"


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.2)


@contextmanager
def opened(data: Path) -> Iterator[tuple[Tables, Topics]]:
    settings = settings_module.restore((data / "run" / "settings.json").read_text())
    with closing(open_tables(settings, data)) as tables, closing(open_topics(settings, data)) as topics:
        yield tables, topics


def send(service: RunningService, *pendings: PendingDelete) -> None:
    with opened(service.data) as (_, topics):
        assert send_pending(topics, "deletion", pendings) == list(pendings)


def make_location(service: RunningService, store: DeletionStore) -> None:
    secret = Vault.open(service.data).seal(store.secret_key)
    location = Location("cold", store.url, store.bucket, store.access_key, secret, 1.0, storage_classes=("COLD",))
    with opened(service.data) as (tables, _):
        tables.put(Location.PREFIX + location.name, location.to_json())


def put_data(store: DeletionStore, key: str) -> PendingDelete:
    owner = {"pool": "pool", "bucket": "photos", "bucket_uid": "uid", "key": key, "version_id": "null"}
    metadata = owner_metadata(Component.PLACEMENT, **owner)
    data_key = f"service/{uuid.uuid4().hex}"
    store.client().put_object(
        Bucket=store.bucket,
        Key=data_key,
        Body=b"data",
        Metadata={name.removeprefix("x-amz-meta-"): value for name, value in metadata.items()},
    )
    return PendingDelete(
        component=Component.PLACEMENT,
        data_type=DataType.LOCATION,
        sent_ns=time.time_ns(),
        location="cold",
        data_key=data_key,
        **owner,
    )


def in_flight(service: RunningService) -> int:
    with service.api() as api:
        found: int = api.get("/api/v1/deletion").raise_for_status().json()["in_flight"]
        return found


def test_pending_deletes_are_carried_out_though_the_process_is_killed_again_and_again(
    service: RunningService, deletion_store: DeletionStore
) -> None:
    make_location(service, deletion_store)
    pendings = [put_data(deletion_store, f"key-{number}") for number in range(150)]
    killed: set[int] = set()
    for start in range(0, len(pendings), 30):
        send(service, *pendings[start : start + 30])
        wait_for(lambda: not killed.issuperset(service.pids_of(MODULE)), "the process runs")
        (running,) = set(service.pids_of(MODULE)) - killed
        os.kill(running, signal.SIGKILL)
        killed.add(running)
    wait_for(lambda: in_flight(service) == 0, "all is deleted")
    assert deletion_store.keys("service/") == set()
    status = service.cli("deletion", "status")
    assert (status["retrying"], status["dead"]) == (0, 0)
    history = service.cli("deletion", "history", "--bucket", "photos", "--count", "1000")
    assert {record["key"] for record in history} == {pending.key for pending in pendings}


def test_while_it_is_off_messages_wait_and_are_carried_out_when_it_is_on_again(
    make_service: MakeService, deletion_store: DeletionStore
) -> None:
    service = make_service(deletion__enabled=False, lifecycle__enabled=False)
    make_location(service, deletion_store)
    pending = put_data(deletion_store, "waiting")
    send(service, pending)
    assert len(service.pids_of(MODULE)) == 1
    status = service.cli("deletion", "status")
    assert (status["enabled"], status["in_flight"]) == (False, 1)
    service.stop()
    assert pending.data_key in deletion_store.keys("service/")
    again = make_service(service.data, deletion__enabled=True, lifecycle__enabled=False)
    wait_for(lambda: in_flight(again) == 0, "it is deleted")
    assert pending.data_key not in deletion_store.keys("service/")


def test_an_upload_in_a_pools_own_store_is_left_to_its_client(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str]
) -> None:
    s3, bucket = service.s3(pool), fresh_name("bucket")
    s3.create_bucket(Bucket=bucket)
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    with opened(service.data) as (tables, _):
        uid = Bucket.from_json(tables.get(Bucket.PREFIX + bucket) or "").uid
    pending = PendingDelete(
        component=Component.UPLOAD,
        data_type=DataType.STORE,
        pool=pool.pool,
        bucket=bucket,
        bucket_uid=uid,
        key="k",
        version_id="",
        upload_id=upload_id,
        sent_ns=1,
    )
    send(service, pending, pending)
    wait_for(lambda: len(service.cli("deletion", "history", "--bucket", bucket)) == 2, "it is recorded")
    assert [upload["UploadId"] for upload in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload_id]
    outcomes = {record["outcome"] for record in service.cli("deletion", "history", "--bucket", bucket)}
    assert outcomes == {"not-matched"}


@pytest.mark.parametrize("versioning", ["", "Enabled", "Suspended"])
def test_a_purge_deletes_all_that_a_bucket_holds(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str], versioning: str
) -> None:
    s3, bucket = service.s3(pool), fresh_name("bucket")
    s3.create_bucket(Bucket=bucket)
    if versioning:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "b/c", "b/d\n😀", "b/c", "e"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    s3.delete_object(Bucket=bucket, Key="e")
    if versioning == "Suspended":
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
        s3.put_object(Bucket=bucket, Key="b/c", Body=b"null")
    s3.create_multipart_upload(Bucket=bucket, Key="b/open")
    expected = {"": (3, 0), "Enabled": (5, 1), "Suspended": (6, 1)}[versioning]
    found = service.cli("bucket", "purge", bucket, "--dry-run")
    assert (found["versions"], found["markers"], found["uploads"]) == (*expected, 1)
    assert (found["deleted"], found["aborted"], found["failed"]) == (0, 0, 0)
    done = service.run_cli("bucket", "purge", bucket, "--prefix", "b/", "--confirm", bucket, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    part = json.loads(done.stdout)
    assert (part["aborted"], part["failed"]) == (1, 0)
    assert {key for key, _ in listed(s3, bucket)} == {"a", "e"} - ({"e"} if not versioning else set())
    rest = service.cli("bucket", "purge", bucket, "--confirm", bucket)
    assert part["deleted"] + rest["deleted"] == sum(expected)
    assert listed(s3, bucket) == set() and not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")
    history = service.cli("deletion", "history", "--bucket", bucket)
    assert len(history) == sum(expected) + 1
    assert {record["why"] for record in history} == {"bucket purge"}
    s3.delete_bucket(Bucket=bucket)


def listed(s3: Any, bucket: str) -> set[tuple[str, str]]:
    page = s3.list_object_versions(Bucket=bucket)
    entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
    return {(entry["Key"], entry["VersionId"]) for entry in entries}


def lockable_bucket(service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str]) -> str:
    """Another one if the pool's manager was quicker to make it, without locks."""
    s3 = service.s3(pool)
    while True:
        bucket = fresh_name("bucket")
        s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
        with suppress(ClientError):
            s3.get_object_lock_configuration(Bucket=bucket)
            return bucket


def test_a_purge_leaves_locked_versions_and_says_so(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str]
) -> None:
    s3, bucket = service.s3(pool), lockable_bucket(service, pool, fresh_name)
    s3.put_object(Bucket=bucket, Key="held", Body=b"x", ObjectLockLegalHoldStatus="ON")
    s3.put_object(Bucket=bucket, Key="free", Body=b"x")
    with service.api() as api:
        reply = api.post(f"/api/v1/buckets/{bucket}/purge", json={"confirm": bucket}).raise_for_status().json()
    assert (reply["deleted"], reply["failed"]) == (1, 1)
    assert "locked" in reply["first_failure"]
    assert {key for key, _ in listed(s3, bucket)} == {"held"}
    assert service.run_cli("bucket", "purge", bucket, "--confirm", bucket).returncode == 1
