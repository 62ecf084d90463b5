"""What keys and anonymous requests may do at a SeaweedFS backend, and that changes hold while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pool_world import World, backends_in, client, make_world

READS = {
    "HeadBucket": lambda s3, b: s3.head_bucket(Bucket=b),
    "ListObjectsV2": lambda s3, b: s3.list_objects_v2(Bucket=b),
    "ListObjectVersions": lambda s3, b: s3.list_object_versions(Bucket=b),
    "GetObject": lambda s3, b: s3.get_object(Bucket=b, Key="o"),
    "HeadObject": lambda s3, b: s3.head_object(Bucket=b, Key="o"),
    "GetObjectTagging": lambda s3, b: s3.get_object_tagging(Bucket=b, Key="o"),
    "GetObjectAttributes": lambda s3, b: s3.get_object_attributes(Bucket=b, Key="o", ObjectAttributes=["ETag"]),
}
READS_WITH_KEY = {
    "GetBucketLocation": lambda s3, b: s3.get_bucket_location(Bucket=b),
    "GetBucketVersioning": lambda s3, b: s3.get_bucket_versioning(Bucket=b),
    "GetBucketAcl": lambda s3, b: s3.get_bucket_acl(Bucket=b),
    "GetObjectAcl": lambda s3, b: s3.get_object_acl(Bucket=b, Key="o"),
}
TAGS = {"TagSet": [{"Key": "k", "Value": "v"}]}


def _multipart(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")
    s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    s3.list_multipart_uploads(Bucket=bucket)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=parts)
    s3.abort_multipart_upload(
        Bucket=bucket, Key="a", UploadId=s3.create_multipart_upload(Bucket=bucket, Key="a")["UploadId"]
    )


def _delete_many(s3: Any, bucket: str) -> None:
    errors = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "m"}]}).get("Errors")
    if errors:
        raise ClientError({"Error": errors[0]}, "DeleteObjects")


WRITES = {
    "PutObject": lambda s3, b: s3.put_object(Bucket=b, Key="n", Body=b"new"),
    "PutObjectTagging": lambda s3, b: s3.put_object_tagging(Bucket=b, Key="n", Tagging=TAGS),
    "DeleteObjectTagging": lambda s3, b: s3.delete_object_tagging(Bucket=b, Key="n"),
    "Multipart": _multipart,
    "DeleteObject": lambda s3, b: s3.delete_object(Bucket=b, Key="n"),
    "DeleteObjects": _delete_many,
}
WRITES_WITH_KEY = {
    "CreateBucket": lambda s3, b: s3.create_bucket(Bucket=f"{b}-new"),
    "DeleteBucket": lambda s3, b: s3.delete_bucket(Bucket=f"{b}-new"),
    "PutBucketVersioning": lambda s3, b: s3.put_bucket_versioning(
        Bucket=b, VersioningConfiguration={"Status": "Suspended"}
    ),
}
COPY = {"CopyObject": lambda s3, b: s3.copy_object(Bucket=b, Key="c", CopySource=f"{b}/o")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = make_world(tmp_path_factory.mktemp("rights"))
    made.create("demo")
    made.wake("demo")
    yield made
    made.close()


@pytest.fixture
def endpoint(world: World) -> str:
    return world.tables.get("ep:demo") or ""


def key(world: World, policy: str) -> tuple[str, str]:
    made, secret = world.registry.create_key("demo", now=time.time(), policy=policy)
    world.registry.wait_applied("demo", 20)
    return made.access_key, secret


def bucket(world: World, endpoint: str, name: str, policy: str) -> str:
    """With one object in it."""
    world.registry.create_bucket(name, "demo", now=time.time(), policy=policy)
    world.registry.wait_applied("demo", 20)
    client(endpoint, key(world, "readwrite")).put_object(Bucket=name, Key="o", Body=b"old", Tagging="a=b")
    return name


def allowed(s3: Any, name: str, *tables: dict[str, Callable[[Any, str], Any]]) -> set[str]:
    """The operations that succeed; all others must be refused as forbidden."""
    found = set()
    for table in tables:
        for operation, call in table.items():
            try:
                call(s3, name)
                found.add(operation)
            except ClientError as error:
                assert error.response["Error"]["Code"] in ("AccessDenied", "403"), (operation, error)
    return found


EVERYTHING = (READS, READS_WITH_KEY, WRITES, WRITES_WITH_KEY, COPY)


@pytest.mark.parametrize(
    ("policy", "tables"),
    [
        ("readwrite", EVERYTHING),
        ("readonly", (READS, READS_WITH_KEY)),
        ("writeonly", (WRITES, WRITES_WITH_KEY)),
    ],
)
def test_a_key_may_do_what_its_policy_says(
    world: World, endpoint: str, policy: str, tables: tuple[dict[str, Any], ...]
) -> None:
    name = bucket(world, endpoint, f"key-{policy}", "none")
    expected = {operation for table in tables for operation in table}
    assert allowed(client(endpoint, key(world, policy)), name, *EVERYTHING) == expected


@pytest.mark.parametrize(
    ("policy", "tables"),
    [
        ("none", ()),
        ("download", (READS,)),
        ("upload", (WRITES,)),
        ("public", (READS, WRITES, COPY)),
    ],
)
def test_a_request_without_a_key_may_do_what_the_bucket_s_policy_says(
    world: World, endpoint: str, policy: str, tables: tuple[dict[str, Any], ...]
) -> None:
    name = bucket(world, endpoint, f"all-{policy}", policy)
    expected = {operation for table in tables for operation in table}
    assert allowed(client(endpoint, None), name, *EVERYTHING) == expected


def test_a_changed_bucket_policy_holds_on_the_running_backend(world: World, endpoint: str) -> None:
    name = bucket(world, endpoint, "changing", "public")
    anonymous = client(endpoint, None)
    assert allowed(anonymous, name, READS) == set(READS)
    for policy, expected in (("none", set()), ("download", set(READS)), ("upload", set())):
        world.registry.set_bucket_policy(name, policy)
        world.registry.wait_applied("demo", 20)
        assert allowed(anonymous, name, READS) == expected


def test_a_deleted_bucket_loses_its_anonymous_rights_and_keeps_its_contents(world: World, endpoint: str) -> None:
    name = bucket(world, endpoint, "deleted", "public")
    world.registry.delete_bucket(name)
    world.registry.wait_applied("demo", 20)
    assert allowed(client(endpoint, None), name, READS, WRITES) == set()
    world.registry.create_bucket(name, "demo", now=time.time(), policy="download")
    world.registry.wait_applied("demo", 20)
    assert client(endpoint, None).get_object(Bucket=name, Key="o")["Body"].read() == b"old"


def test_a_deleted_key_is_unknown_to_the_running_backend(world: World, endpoint: str) -> None:
    credentials = key(world, "readwrite")
    other = key(world, "readwrite")
    client(endpoint, credentials).list_buckets()
    world.registry.delete_key(credentials[0])
    world.registry.wait_applied("demo", 20)
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        client(endpoint, credentials).list_buckets()
    client(endpoint, other).list_buckets()


def test_an_expired_key_is_taken_from_the_running_backend(world: World, endpoint: str) -> None:
    made, secret = world.registry.create_key("demo", now=time.time(), expires_at=time.time() + 2)
    world.registry.wait_applied("demo", 20)
    client(endpoint, (made.access_key, secret)).list_buckets()
    deadline = time.monotonic() + 20
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        while time.monotonic() < deadline:
            client(endpoint, (made.access_key, secret)).list_buckets()
            time.sleep(0.1)


def test_many_buckets_can_be_written_to(world: World, endpoint: str) -> None:
    s3 = client(endpoint, key(world, "readwrite"))
    for number in range(30):
        world.registry.create_bucket(f"many-{number}", "demo", now=time.time())
    world.registry.wait_applied("demo", 20)
    for number in range(30):
        s3.put_object(Bucket=f"many-{number}", Key="k", Body=b"x")


def test_a_bucket_that_is_not_empty_is_not_deleted_at_the_backend(world: World, endpoint: str) -> None:
    name = bucket(world, endpoint, "full", "none")
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        client(endpoint, key(world, "readwrite")).delete_bucket(Bucket=name)


def test_secrets_stand_in_no_file_of_the_pool_or_the_service(world: World, endpoint: str) -> None:
    credentials = key(world, "readwrite")
    client(endpoint, credentials).list_buckets()
    directories = (world.data, Path(world.registry.pool("demo").directory))
    for file in (file for directory in directories for file in directory.rglob("*") if file.is_file()):
        assert credentials[1].encode() not in file.read_bytes(), file


def test_only_the_s3_door_answers_without_a_token_and_all_doors_are_local(world: World, endpoint: str) -> None:
    import http.client
    import subprocess

    pid = world.backend("demo").pid
    listening = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    doors = [line.split()[3] for line in listening.splitlines() if f"pid={pid}," in line]
    ports = [int(door.rpartition(":")[2]) for door in doors]
    assert {door.rpartition(":")[0] for door in doors} == {"127.0.0.1"}
    assert all(world.settings.pools.port_low <= port <= world.settings.pools.port_high for port in ports)
    first = int(endpoint.rpartition(":")[2]) - 6
    filer = http.client.HTTPConnection("127.0.0.1", first + 4, timeout=5)
    filer.request("GET", "/buckets/")
    assert filer.getresponse().status in (401, 404)
    filer.close()
    volume = http.client.HTTPConnection("127.0.0.1", first + 2, timeout=5)
    volume.request("POST", "/1,01637037d6", body=b"x")
    assert volume.getresponse().status == 401
    volume.close()


def test_large_parts_and_virtual_hosts_work(world: World, endpoint: str) -> None:
    import http.client

    name = bucket(world, endpoint, "large", "download")
    s3 = client(endpoint, key(world, "readwrite"))
    body = bytes(range(256)) * 4096 * 64
    s3.put_object(Bucket=name, Key="big", Body=body)
    assert s3.get_object(Bucket=name, Key="big")["Body"].read() == body
    connection = http.client.HTTPConnection(endpoint, timeout=10)
    connection.request("GET", "/o", headers={"Host": f"{name}.localhost:9000"})
    assert connection.getresponse().read() == b"old"
    connection.close()


def test_one_process_serves_the_pool(world: World) -> None:
    assert backends_in(world.registry.pool("demo").directory) == [world.backend("demo").pid]
