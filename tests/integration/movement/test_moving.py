"""Objects move to a location and back through a running service, and their readers do not notice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from running_service import PoolKey, RunningService
from second_store import SecondStore

MIB = 1 << 20


@pytest.fixture
def location(service: RunningService, second_store: SecondStore, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("cold")
    given = ["--endpoint", second_store.url, "--bucket", second_store.bucket, "--prefix", f"{name}/"]
    credentials = ["--access-key", second_store.access_key, "--secret-key-file", str(second_store.secret_file)]
    service.cli("location", "create", name, *given, *credentials)
    return name


@pytest.fixture
def bucket(service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("moving")
    service.s3(pool).create_bucket(Bucket=name)
    return name


def seen(s3: Any, bucket: str, key: str, **which: str) -> dict[str, Any]:
    """What a client sees of an object, but for its storage class."""
    found = s3.get_object(Bucket=bucket, Key=key, **which)
    names = ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata", "VersionId")
    return {name: found.get(name) for name in names} | {"data": found["Body"].read()}


def test_a_prefix_moves_there_and_back_and_reads_the_same(
    service: RunningService, pool: PoolKey, second_store: SecondStore, location: str, bucket: str
) -> None:
    s3 = service.s3(pool)
    keys = [f"in/{number}" for number in range(20)] + ["in/large", "in/ü +&", "in/empty"]
    for number, key in enumerate(keys):
        size = 40 * MIB if key == "in/large" else 0 if key == "in/empty" else 100 * number + 1
        s3.put_object(
            Bucket=bucket, Key=key, Body=os.urandom(size), ContentType="text/x-tide", Metadata={"n": str(number)}
        )
    s3.put_object(Bucket=bucket, Key="out", Body=b"stays")
    before = {key: seen(s3, bucket, key) for key in keys}

    moved = service.cli("move", f"s3://{bucket}/in/", "--to", location)
    assert (moved["moved"], moved["failed"], moved["status"]) == (len(keys), 0, "done")
    assert {key: seen(s3, bucket, key) for key in keys} == before
    classes = {entry["Key"]: entry["StorageClass"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert classes == dict.fromkeys(keys, location) | {"out": "STANDARD"}
    assert len(second_store.keys(prefix=f"{location}/")) == len(keys)
    assert service.cli("move", f"s3://{bucket}/in/", "--to", location)["unchanged"] == len(keys)

    back = service.cli("move", f"s3://{bucket}/in/", "--back")
    assert (back["moved"], back["failed"]) == (len(keys), 0)
    assert {key: seen(s3, bucket, key) for key in keys} == before
    classes = {entry["Key"]: entry["StorageClass"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert set(classes.values()) == {"STANDARD"}


def test_all_versions_move_and_noncurrent_ones_stay_there(
    service: RunningService, pool: PoolKey, location: str, bucket: str
) -> None:
    s3 = service.s3(pool)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=os.urandom(1000))["VersionId"] for _ in range(3)]
    before = {name: seen(s3, bucket, "k", VersionId=name) for name in ids}
    assert service.cli("move", f"s3://{bucket}/", "--to", location)["moved"] == 1
    assert service.cli("move", f"s3://{bucket}/", "--to", location, "--versions")["moved"] == 2
    assert {name: seen(s3, bucket, "k", VersionId=name) for name in ids} == before
    listed = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [(entry["VersionId"], entry["IsLatest"]) for entry in listed] == [
        (ids[2], True), (ids[1], False), (ids[0], False),
    ]  # fmt: skip
    assert {entry["StorageClass"] for entry in listed} == {location}
    done = service.run_cli("move", f"s3://{bucket}/", "--back", "--versions", "--json")
    back = json.loads(done.stdout)
    assert (done.returncode, back["moved"], back["failed"], back["unchanged"]) == (1, 1, 2, 0)
    assert "a noncurrent version cannot be moved back" in back["reasons"][0]
    assert {name: seen(s3, bucket, "k", VersionId=name) for name in ids} == before


def test_what_a_client_wrote_after_the_move_was_asked_for_is_kept(
    service: RunningService, pool: PoolKey, location: str, bucket: str
) -> None:
    s3 = service.s3(pool)
    for number in range(50):
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"old")
    asked = service.cli("move", f"s3://{bucket}/", "--to", location, "--no-wait")
    for number in range(0, 50, 2):
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"newer")
    while service.cli("move", "status", asked["id"])["ended_at"] is None:
        pass
    for number in range(50):
        expected = b"old" if number % 2 else b"newer"
        assert s3.get_object(Bucket=bucket, Key=f"k{number}")["Body"].read() == expected
