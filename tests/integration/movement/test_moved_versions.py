"""Versions that were moved: current and noncurrent ones, in every state of versioning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from direct_backend import direct_backend
from moving_world import MovingWorld
from running_service import RunningService, s3_client
from second_store import SecondStore


@pytest.fixture(scope="module")
def world(service: RunningService, second_store: SecondStore) -> MovingWorld:
    return MovingWorld(service, service.create_pool("moved-versions"), second_store)


@pytest.fixture
def bucket(world: MovingWorld, fresh_name: Callable[[str], str]) -> str:
    return world.bucket(fresh_name("versions"), versioning="Enabled")


def put(world: MovingWorld, bucket: str, *bodies: str, key: str = "k") -> list[str]:
    """The version ids, the oldest first."""
    return [world.s3.put_object(Bucket=bucket, Key=key, Body=body.encode()).get("VersionId", "null") for body in bodies]


def history(world: MovingWorld, bucket: str, key: str = "k") -> list[tuple[str, bool, bool]]:
    """Ids, whether they are latest and whether they are markers, as a listing shows them."""
    page = world.s3.list_object_versions(Bucket=bucket, Prefix=key)
    found = [(entry, False) for entry in page.get("Versions", [])]
    found += [(entry, True) for entry in page.get("DeleteMarkers", [])]
    found.sort(key=lambda pair: (not pair[0]["IsLatest"], -pair[0]["LastModified"].timestamp()))
    return [(entry["VersionId"], entry["IsLatest"], is_marker) for entry, is_marker in found]


def body_of(world: MovingWorld, bucket: str, version_id: str = "", key: str = "k") -> str:
    named = {"VersionId": version_id} if version_id else {}
    return str(world.s3.get_object(Bucket=bucket, Key=key, **named)["Body"].read().decode())


def raw(page: dict[str, Any]) -> list[Any]:
    return [{**entry, "StorageClass": ""} for entry in page.get("Versions", [])]


def test_every_version_is_moved_and_shown_as_before(world: MovingWorld, bucket: str) -> None:
    ids = put(world, bucket, "one", "two", "three", "four")
    before = raw(world.s3.list_object_versions(Bucket=bucket))
    for version_id in (ids[1], ids[3], ids[0], ids[2]):
        assert world.move(bucket, "k", version_id) == "placed"
        assert raw(world.s3.list_object_versions(Bucket=bucket)) == before
    for version_id, text in zip(ids, ("one", "two", "three", "four"), strict=True):
        assert body_of(world, bucket, version_id) == text
        assert world.delete_original(bucket, "k", version_id) == 204
    assert raw(world.s3.list_object_versions(Bucket=bucket)) == before
    assert body_of(world, bucket) == "four"
    pages = []
    paginator = world.s3.get_paginator("list_object_versions")
    for page in paginator.paginate(Bucket=bucket, PaginationConfig={"PageSize": 1}):
        pages += raw(page)
    assert pages == before


def test_a_noncurrent_version_comes_back_when_those_above_it_go(world: MovingWorld, bucket: str) -> None:
    ids = put(world, bucket, "one", "two", "three")
    for version_id in ids[:2]:
        assert world.move(bucket, "k", version_id) == "placed"
        assert world.delete_original(bucket, "k", version_id) == 204
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[2])
    assert body_of(world, bucket) == "two"
    assert [entry["Key"] for entry in world.s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]
    marker = world.s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    with pytest.raises(ClientError):
        body_of(world, bucket)
    assert "Contents" not in world.s3.list_objects_v2(Bucket=bucket)
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[1])
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=marker)
    assert body_of(world, bucket) == "one"
    assert history(world, bucket) == [(ids[0], True, False)]
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[0])
    assert history(world, bucket) == []
    assert world.placements(bucket) == []


def test_a_version_above_a_moved_one_hides_it(world: MovingWorld, bucket: str) -> None:
    (first,) = put(world, bucket, "one")
    world.move(bucket, "k", first)
    (second,) = put(world, bucket, "two")
    assert body_of(world, bucket) == "two"
    assert body_of(world, bucket, first) == "one"
    assert history(world, bucket) == [(second, True, False), (first, False, False)]
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=second)
    assert body_of(world, bucket) == "one"


def test_a_version_that_was_moved_back_and_is_noncurrent_now_moves_below_the_others(
    world: MovingWorld, bucket: str
) -> None:
    (first,) = put(world, bucket, "one")
    assert (world.move(bucket, "k", first), world.move_back(bucket, "k", first)) == ("placed", 200)
    (second,) = put(world, bucket, "two")
    assert world.move(bucket, "k", first) == "placed"
    assert history(world, bucket) == [(second, True, False), (first, False, False)]
    assert (body_of(world, bucket), body_of(world, bucket, first)) == ("two", "one")
    url, key = direct_backend(world.service, world.key.pool)
    stored = s3_client(url, key).list_object_versions(Bucket=bucket)["Versions"]
    assert [version["VersionId"] for version in stored] == [second]
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=second)
    assert (body_of(world, bucket), history(world, bucket)) == ("one", [(first, True, False)])


def test_a_null_version_that_was_moved_back_is_read_below_another_one(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("versions"))
    put(world, bucket, "zero")
    assert (world.move(bucket, "k"), world.move_back(bucket, "k")) == ("placed", 200)
    world.set_versioning(bucket, "Enabled")
    put(world, bucket, "one, and longer")
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("one, and longer", "zero")


def test_a_null_version_that_was_moved_back_moves_again_after_versioning_was_enabled(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("versions"))
    for key in ("k", "covered"):
        put(world, bucket, "zero", key=key)
        assert (world.move(bucket, key), world.move_back(bucket, key)) == ("placed", 200)
    world.set_versioning(bucket, "Enabled")
    put(world, bucket, "above", key="covered")
    assert [world.move(bucket, key, "null") for key in ("k", "covered")] == ["placed", "refused"]
    put(world, bucket, "one")
    assert [record.key for record in world.placements(bucket) if record.location] == ["k"]
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("one", "zero")
    assert (body_of(world, bucket, key="covered"), body_of(world, bucket, "null", "covered")) == ("above", "zero")


def test_the_id_of_a_stub_is_nobodys(world: MovingWorld, bucket: str) -> None:
    (first,) = put(world, bucket, "one")
    world.move(bucket, "k", first)
    (record,) = world.placements(bucket)
    assert record.stub_id not in ("", first)
    with pytest.raises(ClientError):
        body_of(world, bucket, record.stub_id)
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=record.stub_id)
    world.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "VersionId": record.stub_id}]})
    assert body_of(world, bucket) == "one"


def test_an_original_is_deleted_only_if_it_was_moved(world: MovingWorld, bucket: str) -> None:
    first, second = put(world, bucket, "one", "two")
    assert world.delete_original(bucket, "k", first) == 409
    assert world.delete_original(bucket, "k", second) == 409
    world.move(bucket, "k", first)
    assert world.delete_original(bucket, "k", first) == 204
    assert world.delete_original(bucket, "k", first) == 204
    assert (body_of(world, bucket, first), body_of(world, bucket, second)) == ("one", "two")


def test_the_original_of_a_null_version_below_others_is_deleted(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("null-below"))
    put(world, bucket, "one")
    world.set_versioning(bucket, "Enabled")
    (second,) = put(world, bucket, "two")
    assert world.move(bucket, "k", "null") == "placed"
    assert world.delete_original(bucket, "k", "null") == 204
    url, key = direct_backend(world.service, world.key.pool)
    stored = s3_client(url, key).list_object_versions(Bucket=bucket)["Versions"]
    assert [version["VersionId"] for version in stored] == [second]
    assert (body_of(world, bucket, "null"), body_of(world, bucket)) == ("one", "two")


def test_a_deleted_version_does_not_come_back_from_its_original(world: MovingWorld, bucket: str) -> None:
    first, second = put(world, bucket, "one", "two")
    for version_id in (first, second):
        world.move(bucket, "k", version_id)
    for version_id in (second, first):
        world.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "VersionId": version_id}]})
    assert history(world, bucket) == []
    assert world.placements(bucket) == []


def test_a_null_version_that_was_moved_is_replaced_by_the_next(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("versions"))
    put(world, bucket, "zero")
    world.set_versioning(bucket, "Enabled")
    assert world.move(bucket, "k") == "placed"
    assert world.delete_original(bucket, "k", "null") == 204
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("zero", "zero")
    (named,) = put(world, bucket, "one")
    assert history(world, bucket) == [(named, True, False), ("null", False, False)]
    world.set_versioning(bucket, "Suspended")
    put(world, bucket, "two")
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("two", "two")
    assert body_of(world, bucket, named) == "one"
    assert sorted(entry[0] for entry in history(world, bucket)) == sorted([named, "null"])
    assert [record for record in world.placements(bucket) if not record.is_void] == []
    (renamed,) = put(world, bucket, "three")
    assert (renamed, body_of(world, bucket), body_of(world, bucket, named)) == ("null", "three", "one")


def test_a_named_version_moved_while_versioning_is_suspended_stays(world: MovingWorld, bucket: str) -> None:
    (named,) = put(world, bucket, "one")
    world.set_versioning(bucket, "Suspended")
    assert world.move(bucket, "k", named) == "placed"
    assert (body_of(world, bucket), history(world, bucket)) == ("one", [(named, True, False)])
    put(world, bucket, "two")
    assert (body_of(world, bucket), body_of(world, bucket, named)) == ("two", "one")
    assert sorted(entry[0] for entry in history(world, bucket)) == sorted([named, "null"])
    # A stub would take the place of the null version now.
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert body_of(world, bucket) == "one"


def test_a_named_version_moved_while_versioning_is_suspended_is_deleted_with_its_stub(
    world: MovingWorld, bucket: str
) -> None:
    first, second = put(world, bucket, "one", "two")
    world.set_versioning(bucket, "Suspended")
    assert world.move(bucket, "k", second) == "placed"
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=second)
    assert (body_of(world, bucket), history(world, bucket)) == ("one", [(first, True, False)])
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=first)
    assert (history(world, bucket), world.placements(bucket)) == ([], [])


def test_a_stub_never_replaces_the_null_version_below_it(world: MovingWorld, fresh_name: Callable[[str], str]) -> None:
    """Also where versioning was suspended after the gateway had looked: here it does not hear of that."""
    bucket = world.bucket(fresh_name("suspended"))
    put(world, bucket, "zero")
    world.set_versioning(bucket, "Enabled")
    (named,) = put(world, bucket, "one")
    url, key = direct_backend(world.service, world.key.pool)
    s3_client(url, key).put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert world.move(bucket, "k", named) == "refused"
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("one", "zero")


def test_a_version_does_not_move_back_over_the_null_version(
    world: MovingWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("suspended"))
    put(world, bucket, "zero")
    world.set_versioning(bucket, "Enabled")
    (named,) = put(world, bucket, "one")
    assert world.move(bucket, "k", named) == "placed"
    world.set_versioning(bucket, "Suspended")
    assert world.move_back(bucket, "k", named) == 403
    assert (body_of(world, bucket), body_of(world, bucket, "null")) == ("one", "zero")


def test_a_version_below_the_null_version_moves_only_if_the_store_keeps_the_null_version_current(
    world: MovingWorld, bucket: str
) -> None:
    older = put(world, bucket, "one", "two")
    (alone,) = put(world, bucket, "alone", key="single")
    world.set_versioning(bucket, "Suspended")
    put(world, bucket, "three")
    put(world, bucket, "above", key="single")
    assert [world.move(bucket, "k", version_id) for version_id in older] == ["refused", "refused"]
    assert world.move(bucket, "single", alone) == "placed"
    assert world.delete_original(bucket, "single", alone) == 204
    assert (body_of(world, bucket), body_of(world, bucket, key="single")) == ("three", "above")
    assert body_of(world, bucket, alone, key="single") == "alone"


def test_an_original_stays_while_the_store_would_take_another_version_for_the_current_one(
    make_service: Callable[..., RunningService], second_store: SecondStore
) -> None:
    service = make_service(deletion__enabled=False, lifecycle__enabled=False)
    world = MovingWorld(service, service.create_pool("covered"), second_store)
    bucket = world.bucket("covered", versioning="Enabled")
    first, second = put(world, bucket, "one", "two")
    assert world.move(bucket, "k", first) == "placed"
    world.set_versioning(bucket, "Suspended")
    put(world, bucket, "three")
    assert world.delete_original(bucket, "k", first) == 409
    assert (body_of(world, bucket), body_of(world, bucket, first), body_of(world, bucket, second)) == (
        "three",
        "one",
        "two",
    )


def test_a_locked_version_stays_where_it_is(world: MovingWorld, fresh_name: Callable[[str], str]) -> None:
    bucket = fresh_name("locks")
    world.s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"1", ObjectLockLegalHoldStatus="ON")
    assert world.move(bucket, "k") == "refused"
    assert body_of(world, bucket) == "1"
