"""Whom a SeaweedFS backend serves, and what it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from pool_world import World, backends_in, client, make_world

from tidegate.core.backend_traits import traits_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = make_world(tmp_path_factory.mktemp("access"))
    made.create("demo", "first")
    made.wake("demo")
    yield made
    made.close()


def test_the_backend_s_own_credential_may_do_everything(world: World) -> None:
    s3 = world.client("demo")
    s3.put_object(Bucket="first", Key="o", Body=b"old", Tagging="a=b")
    assert s3.get_object(Bucket="first", Key="o")["Body"].read() == b"old"
    s3.put_bucket_versioning(Bucket="first", VersioningConfiguration={"Status": "Suspended"})
    s3.delete_object(Bucket="first", Key="o")


def test_a_pool_s_key_is_unknown_to_its_backend(world: World) -> None:
    key, secret = world.registry.create_key("demo", now=time.time())
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        client(world.wake("demo"), (key.access_key, secret)).list_buckets()


def test_a_wrong_secret_of_the_credential_is_refused(world: World) -> None:
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client(world.wake("demo"), (world.credential("demo")[0], "wrong")).list_buckets()


@pytest.mark.parametrize("policy", ["none", "download", "upload", "public"])
def test_whatever_a_bucket_s_policy_is_its_backend_serves_nobody_without_the_credential(
    world: World, policy: str
) -> None:
    name = f"all-{policy}"
    world.registry.create_bucket(name, "demo", now=time.time(), policy=policy)
    world.registry.wait_applied("demo", 90)
    world.client("demo").put_object(Bucket=name, Key="o", Body=b"old")
    anonymous = client(world.wake("demo"), None)
    for call in (
        lambda: anonymous.get_object(Bucket=name, Key="o"),
        lambda: anonymous.list_objects_v2(Bucket=name),
        lambda: anonymous.put_object(Bucket=name, Key="n", Body=b"new"),
        lambda: anonymous.delete_object(Bucket=name, Key="o"),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            call()


def test_every_start_makes_a_new_credential(world: World) -> None:
    before = world.credential("demo")
    world.registry.stop_pool("demo")
    world.wake("demo")
    assert set(before).isdisjoint(world.credential("demo"))
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        client(world.wake("demo"), before).list_buckets()


def test_buckets_that_an_administrator_makes_are_there_when_the_wait_is_over(world: World) -> None:
    world.wake("demo")
    for number in range(30):
        world.registry.create_bucket(f"many-{number}", "demo", now=time.time())
    world.registry.wait_applied("demo", 90)
    s3 = world.client("demo")
    for number in range(30):
        s3.put_object(Bucket=f"many-{number}", Key="k", Body=b"x")


def test_a_deleted_bucket_keeps_its_contents_and_shows_them_when_it_is_made_again(world: World) -> None:
    for _ in range(2):
        world.registry.create_bucket("deleted", "demo", now=time.time())
        world.registry.wait_applied("demo", 90)
        s3 = world.client("demo")
        if s3.list_objects_v2(Bucket="deleted")["KeyCount"] == 0:
            s3.put_object(Bucket="deleted", Key="o", Body=b"old")
            world.registry.delete_bucket("deleted")
    assert s3.get_object(Bucket="deleted", Key="o")["Body"].read() == b"old"


def test_a_bucket_that_is_not_empty_is_not_deleted_at_the_backend(world: World) -> None:
    s3 = world.client("demo")
    s3.put_object(Bucket="first", Key="stays", Body=b"x")
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="first")


def test_the_secret_stands_in_no_file_and_on_no_command_line(world: World) -> None:
    world.wake("demo")
    _, secret = world.credential("demo")
    directories = (world.data, Path(world.registry.pool("demo").directory))
    for file in (file for directory in directories for file in directory.rglob("*") if file.is_file()):
        assert secret.encode() not in file.read_bytes(), file
    for name in ("cmdline", "environ"):
        assert secret.encode() not in Path(f"/proc/{world.backend('demo').pid}/{name}").read_bytes()


def test_large_bodies_come_back_as_they_were(world: World) -> None:
    s3 = world.client("demo")
    body = bytes(range(256)) * 4096 * 64
    s3.put_object(Bucket="first", Key="big", Body=body)
    assert s3.get_object(Bucket="first", Key="big")["Body"].read() == body


def test_one_process_serves_the_pool(world: World) -> None:
    world.wake("demo")
    assert backends_in(world.registry.pool("demo").directory) == [world.backend("demo").pid]


def test_exactly_the_reserved_names_are_no_buckets_to_the_backend(world: World) -> None:
    """Asked itself, which answers at these paths without listing anything."""
    s3 = world.client("demo")
    names = ("status", "healthz", "readyz", "metrics", "buckets", "tables", "namespaces", "debug", "favicon.ico")
    for name in names:
        s3.create_bucket(Bucket=name)
        s3.put_object(Bucket=name, Key="k", Body=b"x")
        listed = s3.list_objects(Bucket=name).get("Contents", [])
        assert (not listed) == bool(traits_of("seaweedfs").bucket_problem(name)), name
