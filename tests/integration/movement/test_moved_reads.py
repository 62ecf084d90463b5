"""Objects that lie in a location, read through the gateway: as before they were moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from deletion_place import sent_in
from direct_backend import direct_backend
from moving_world import MovingWorld
from running_service import RunningService, s3_client
from second_store import SecondStore

from tidegate.core.replication.records import Status


@pytest.fixture(scope="module")
def world(service: RunningService, second_store: SecondStore) -> MovingWorld:
    return MovingWorld(service, service.create_pool("moved-reads"), second_store)


@pytest.fixture(params=["", "Enabled", "Suspended"], ids=["unversioned", "versioned", "suspended"])
def bucket(world: MovingWorld, request: pytest.FixtureRequest, fresh_name: Callable[[str], str]) -> str:
    return world.bucket(fresh_name("moved"), versioning=request.param)


def seen(reply: dict[str, Any]) -> dict[str, Any]:
    """What a client sees of an object, but for what differs with each reply and the storage class."""
    headers = dict(reply["ResponseMetadata"]["HTTPHeaders"])
    for name in ("date", "x-amz-request-id", "x-amz-storage-class", "connection", "accept-encoding", "vary"):
        headers.pop(name, None)
    return {"status": reply["ResponseMetadata"]["HTTPStatusCode"], "headers": headers}


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_moved_object_is_read_as_before(world: MovingWorld, bucket: str) -> None:
    s3, body = world.s3, bytes(range(256)) * 300
    s3.put_object(Bucket=bucket, Key="a/b", Body=body, ContentType="text/x", Metadata={"who": "me"}, Tagging="x=1&y=2")
    before = {
        "head": seen(s3.head_object(Bucket=bucket, Key="a/b")),
        "get": seen(s3.get_object(Bucket=bucket, Key="a/b")),
        "range": seen(s3.get_object(Bucket=bucket, Key="a/b", Range="bytes=10-99")),
        "suffix": seen(s3.get_object(Bucket=bucket, Key="a/b", Range="bytes=-7")),
    }
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    versions = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert world.move(bucket, "a/b") == "placed"
    assert seen(s3.head_object(Bucket=bucket, Key="a/b")) == before["head"]
    got = s3.get_object(Bucket=bucket, Key="a/b")
    assert (got["Body"].read(), seen(got)) == (body, before["get"])
    part = s3.get_object(Bucket=bucket, Key="a/b", Range="bytes=10-99")
    assert (part["Body"].read(), seen(part)) == (body[10:100], before["range"])
    end = s3.get_object(Bucket=bucket, Key="a/b", Range="bytes=-7")
    assert (end["Body"].read(), seen(end)) == (body[-7:], before["suffix"])
    assert got["StorageClass"] == "COLD"
    now = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [{**entry, "StorageClass": ""} for entry in now] == [{**entry, "StorageClass": ""} for entry in listed]
    assert now[0]["StorageClass"] == "COLD"
    shown = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [{**entry, "StorageClass": ""} for entry in shown] == [{**entry, "StorageClass": ""} for entry in versions]


def test_a_moved_object_tells_how_its_replication_stands(world: MovingWorld, fresh_name: Callable[[str], str]) -> None:
    s3, bucket = world.s3, world.bucket(fresh_name("moved"), versioning="Enabled")
    versions = [s3.put_object(Bucket=bucket, Key="k", Body=body)["VersionId"] for body in (b"old", b"new")]
    s3.put_object(Bucket=bucket, Key="replica", Body=b"data", Metadata={"tidegate-component": "replica"})
    for key, version_id in (("k", versions[0]), ("k", ""), ("replica", "")):
        assert world.move(bucket, key, version_id) == "placed"

    def told(key: str, version_id: str = "") -> str:
        which = {"Bucket": bucket, "Key": key, **({"VersionId": version_id} if version_id else {})}
        return str(s3.head_object(**which)["ResponseMetadata"]["HTTPHeaders"].get("x-amz-replication-status", ""))

    assert [told("k"), told("k", versions[0]), told("replica")] == ["", "", "REPLICA"]
    # No rule matches the keys, so that no worker touches the records.
    world.replicate(bucket, "elsewhere/")
    world.record(bucket, "k", versions[0], Status.FAILED)
    world.record(bucket, "k", versions[1], Status.COMPLETED)
    assert [told("k"), told("k", versions[0]), told("replica")] == ["COMPLETED", "FAILED", "REPLICA"]
    s3.delete_bucket_replication(Bucket=bucket)


def test_conditions_are_those_of_the_moved_object(world: MovingWorld, bucket: str) -> None:
    s3 = world.s3
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"data")["ETag"]
    world.move(bucket, "k")
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"data"
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", IfMatch='"other"')
    assert code_of(error) == "PreconditionFailed"
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", Range="bytes=4-")
    assert code_of(error) == "InvalidRange"


def test_overwriting_and_deleting_release_the_data(world: MovingWorld, bucket: str) -> None:
    s3 = world.s3
    for key in ("over", "gone", "many"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"cold")
        assert world.move(bucket, key) == "placed"
    versions = {entry["Key"]: entry["VersionId"] for entry in s3.list_object_versions(Bucket=bucket)["Versions"]}
    s3.put_object(Bucket=bucket, Key="over", Body=b"warm")
    assert s3.get_object(Bucket=bucket, Key="over")["Body"].read() == b"warm"
    s3.delete_object(Bucket=bucket, Key="gone")
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "many"}]})
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["over"]
    if any(version != "null" for version in versions.values()):
        for key in ("over", "gone", "many"):
            old = s3.get_object(Bucket=bucket, Key=key, VersionId=versions[key])
            assert old["Body"].read() == b"cold"
            s3.delete_object(Bucket=bucket, Key=key, VersionId=versions[key])
            with pytest.raises(ClientError):
                s3.get_object(Bucket=bucket, Key=key, VersionId=versions[key])
    assert world.placements(bucket) == []
    released = [pending.key for pending in world.pending(bucket) if pending.location]
    assert sorted(released) == ["gone", "many", "over"]


def test_tags_of_a_moved_object_are_changed_and_read(world: MovingWorld, bucket: str) -> None:
    s3 = world.s3
    s3.put_object(Bucket=bucket, Key="t", Body=b"1", Tagging="a=1")
    world.move(bucket, "t")
    assert s3.get_object_tagging(Bucket=bucket, Key="t")["TagSet"] == [{"Key": "a", "Value": "1"}]
    s3.put_object_tagging(Bucket=bucket, Key="t", Tagging={"TagSet": [{"Key": "b", "Value": "2"}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="t")["TagSet"] == [{"Key": "b", "Value": "2"}]
    assert s3.head_object(Bucket=bucket, Key="t")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "1"
    s3.delete_object_tagging(Bucket=bucket, Key="t")
    assert s3.get_object_tagging(Bucket=bucket, Key="t")["TagSet"] == []


def test_moved_objects_are_copied_from(world: MovingWorld, bucket: str) -> None:
    s3, body = world.s3, b"0123456789" * 200_000
    s3.put_object(Bucket=bucket, Key="src", Body=body, Metadata={"m": "1"}, Tagging="a=1")
    world.move(bucket, "src")
    s3.copy_object(Bucket=bucket, Key="dst", CopySource={"Bucket": bucket, "Key": "src"})
    copied = s3.get_object(Bucket=bucket, Key="dst")
    assert (copied["Body"].read(), copied["Metadata"]) == (body, {"m": "1"})
    assert s3.get_object_tagging(Bucket=bucket, Key="dst")["TagSet"] == [{"Key": "a", "Value": "1"}]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    part = s3.upload_part_copy(
        Bucket=bucket,
        Key="parts",
        UploadId=upload,
        PartNumber=1,
        CopySource={"Bucket": bucket, "Key": "src"},
        CopySourceRange="bytes=5-104",
    )
    etag = part["CopyPartResult"]["ETag"]
    s3.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
    )
    assert s3.get_object(Bucket=bucket, Key="parts")["Body"].read() == body[5:105]


def test_conditional_writes_compare_with_the_moved_object(world: MovingWorld, bucket: str) -> None:
    s3 = world.s3
    etag = s3.put_object(Bucket=bucket, Key="c", Body=b"1")["ETag"]
    world.move(bucket, "c")
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="c", Body=b"2", IfNoneMatch="*")
    assert code_of(error) == "PreconditionFailed"
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="c", Body=b"2", IfMatch='"other"')
    assert code_of(error) == "PreconditionFailed"
    s3.put_object(Bucket=bucket, Key="c", Body=b"2", IfMatch=etag)
    assert s3.get_object(Bucket=bucket, Key="c")["Body"].read() == b"2"


def test_what_is_put_in_the_place_of_an_object_that_was_moved_back_is_not_shown_as_that_object(
    world: MovingWorld, bucket: str
) -> None:
    """As in the moment in which a client's object is at the store, and its record is not settled yet."""
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    assert (world.move(bucket, "k"), world.move_back(bucket, "k")) == ("placed", 200)
    url, key = direct_backend(world.service, world.key.pool)
    direct = s3_client(url, key)
    (record,) = world.placements(bucket)
    version = {"VersionId": record.stub_id} if record.stub_id else {}
    direct.delete_object(Bucket=bucket, Key="k", **version)
    direct.put_object(Bucket=bucket, Key="k", Body=b"others")
    with pytest.raises(ClientError) as error:
        world.service.s3(world.key, retries=1).get_object(Bucket=bucket, Key="k")
    assert code_of(error) == "ServiceUnavailable"


def test_a_moved_object_moves_back_and_keeps_its_time(world: MovingWorld, bucket: str) -> None:
    s3, body = world.s3, b"x" * 100_000
    s3.put_object(Bucket=bucket, Key="back", Body=body, Metadata={"m": "1"}, ContentType="text/y")
    before = seen(s3.get_object(Bucket=bucket, Key="back"))
    world.move(bucket, "back")
    sent = sent_in(world.service)
    assert world.move_back(bucket, "back") == 200
    assert sent_in(world.service) == sent + 1
    got = s3.get_object(Bucket=bucket, Key="back")
    assert (got["Body"].read(), seen(got)) == (body, before)
    assert [record.location for record in world.placements(bucket)] == [""]
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [(entry["Key"], entry["Size"]) for entry in listed] == [("back", len(body))]
    assert world.move(bucket, "back") == "placed"
    assert s3.get_object(Bucket=bucket, Key="back")["Body"].read() == body
    s3.put_object(Bucket=bucket, Key="back", Body=b"new")
    assert s3.get_object(Bucket=bucket, Key="back")["Body"].read() == b"new"


def test_what_is_not_what_was_copied_is_left_alone(world: MovingWorld, bucket: str) -> None:
    s3 = world.s3
    s3.put_object(Bucket=bucket, Key="r", Body=b"first")
    request = world.copy(bucket, "r")
    s3.put_object(Bucket=bucket, Key="r", Body=b"second")
    assert world.place(bucket, "r", "", request) == "changed"
    s3.delete_object(Bucket=bucket, Key="r")
    assert world.place(bucket, "r", "", request) == "gone"
    assert world.placements(bucket) == []


def test_placing_again_changes_nothing(world: MovingWorld, bucket: str) -> None:
    world.s3.put_object(Bucket=bucket, Key="twice", Body=b"first")
    request = world.copy(bucket, "twice")
    assert world.place(bucket, "twice", "", request) == "placed"
    assert world.place(bucket, "twice", "", request) == "already"
    assert world.s3.get_object(Bucket=bucket, Key="twice")["Body"].read() == b"first"


def test_clients_may_neither_place_objects_nor_send_what_names_a_placement(world: MovingWorld, bucket: str) -> None:
    world.s3.put_object(Bucket=bucket, Key="p", Body=b"1")
    request = world.copy(bucket, "p")
    own = (world.key.access_key, world.key.secret_key)
    query = {"tidegate-placement": ""}
    assert world.ask("PUT", bucket, "p", query, body=str(request).encode(), credentials=own)[0] == 403
    assert world.ask("DELETE", bucket, "p", {"tidegate-original": "", "versionId": "x"}, credentials=own)[0] == 403
    with pytest.raises(ClientError) as error:
        world.s3.put_object(Bucket=bucket, Key="q", Body=b"1", Metadata={"tidegate-placement": "x/y/z"})
    assert code_of(error) == "InvalidArgument"


def test_a_copy_that_was_handed_to_deletion_is_not_placed(world: MovingWorld, bucket: str) -> None:
    world.s3.put_object(Bucket=bucket, Key="late", Body=b"first")
    request = world.copy(bucket, "late")
    world.forget_copy(request["data_key"])
    assert world.place(bucket, "late", "", request) == "changed"
    assert world.placements(bucket) == []
    assert world.s3.get_object(Bucket=bucket, Key="late")["Body"].read() == b"first"
    assert world.move(bucket, "late") == "placed"
    (record,) = world.placements(bucket)
    again = world.copy(bucket, "late")
    world.forget_copy(again["data_key"])
    assert world.place(bucket, "late", "", again) == "changed"
    assert [each.data_key for each in world.placements(bucket)] == [record.data_key]
    assert world.s3.get_object(Bucket=bucket, Key="late")["Body"].read() == b"first"


def test_neither_a_bucket_nor_its_pool_goes_while_objects_lie_elsewhere(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("stays"))
    world.s3.put_object(Bucket=bucket, Key="moved", Body=b"first")
    assert world.move(bucket, "moved") == "placed"
    for kind, name in (("bucket", bucket), ("pool", world.key.pool)):
        refused = world.service.run_cli(kind, "delete", name, "--yes")
        assert refused.returncode and "tidegate bucket purge" in refused.stderr, refused
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        world.s3.delete_bucket(Bucket=bucket)
    assert world.s3.get_object(Bucket=bucket, Key="moved")["Body"].read() == b"first"
    world.s3.delete_object(Bucket=bucket, Key="moved")
    world.s3.delete_bucket(Bucket=bucket)
