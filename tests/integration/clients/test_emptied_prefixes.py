"""A prefix is there as long as a key begins with it: stores that map keys to directories keep empty ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from ways import Way

KEYS = ["app/deep/er/1", "app/deep/er/2", "app/deep-old/3", "app-old/4", "app.yaml"]


@pytest.fixture
def bucket(gateway: Way, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("emptied")
    s3 = gateway.s3()
    s3.create_bucket(Bucket=name)
    for key in KEYS:
        s3.put_object(Bucket=name, Key=key, Body=b"x")
    return name


def _one_by_one(s3: Any, bucket: str, keys: list[str]) -> None:
    for key in keys:
        s3.delete_object(Bucket=bucket, Key=key)


def _at_once(s3: Any, bucket: str, keys: list[str]) -> None:
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})


_EACH_WAY_TO_DELETE = pytest.mark.parametrize("delete", [_one_by_one, _at_once])


@_EACH_WAY_TO_DELETE
@pytest.mark.parametrize("list_type", [1, 2])
def test_a_prefix_is_not_listed_any_more_when_its_last_key_is_gone(
    gateway: Way, bucket: str, delete: Callable[..., None], list_type: int
) -> None:
    s3 = gateway.s3()
    assert _folders(s3, bucket, "", list_type) == ["app-old/", "app/"]
    delete(s3, bucket, ["app/deep/er/1"])
    assert _folders(s3, bucket, "app/deep/", list_type) == ["app/deep/er/"]
    delete(s3, bucket, ["app/deep/er/2"])
    assert _folders(s3, bucket, "app/deep/", list_type) == []
    assert _folders(s3, bucket, "app/", list_type) == ["app/deep-old/"]
    delete(s3, bucket, ["app/deep-old/3"])
    assert _folders(s3, bucket, "", list_type) == ["app-old/"]
    assert s3.list_objects_v2(Bucket=bucket, Prefix="app/", MaxKeys=1)["KeyCount"] == 0


def test_a_prefix_without_a_marker_is_no_object(gateway: Way, bucket: str) -> None:
    s3 = gateway.s3()
    for key in ("app/deep/er/", "app/deep/er", "app/deep/", "app/", "app"):
        with pytest.raises(ClientError, match="404"):
            s3.head_object(Bucket=bucket, Key=key)
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=bucket, Key=key)


@_EACH_WAY_TO_DELETE
def test_an_emptied_prefix_is_no_object_either(gateway: Way, bucket: str, delete: Callable[..., None]) -> None:
    s3 = gateway.s3()
    delete(s3, bucket, KEYS[:3])
    for key in ("app/deep/er/", "app/deep/er", "app/deep/", "app/", "app"):
        with pytest.raises(ClientError, match="404"):
            s3.head_object(Bucket=bucket, Key=key)


@_EACH_WAY_TO_DELETE
def test_emptied_prefixes_take_no_place_in_pages(gateway: Way, bucket: str, delete: Callable[..., None]) -> None:
    """A page that is filled with what is not there ends the listing of a client that looks at one page only."""
    s3 = gateway.s3()
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"aaa-{number}/x", Body=b"x")
    delete(s3, bucket, [f"aaa-{number}/x" for number in range(5)])
    page = s3.list_objects_v2(Bucket=bucket, Delimiter="/", MaxKeys=2)
    names = [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    assert names + [entry["Key"] for entry in page.get("Contents", [])] == ["app-old/", "app.yaml"]
    assert page["KeyCount"] == 2 and page["IsTruncated"] is True


def test_a_marker_keeps_its_prefix_until_it_is_deleted_itself(gateway: Way, bucket: str) -> None:
    s3 = gateway.s3()
    s3.put_object(Bucket=bucket, Key="app/deep/", Body=b"")
    _one_by_one(s3, bucket, KEYS[:3])
    assert _folders(s3, bucket, "app/", 2) == ["app/deep/"]
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix="app/")["Contents"]] == ["app/deep/"]
    s3.delete_object(Bucket=bucket, Key="app/deep/")
    assert _folders(s3, bucket, "", 2) == ["app-old/"]


@_EACH_WAY_TO_DELETE
def test_a_prefix_under_which_only_delete_markers_are_current_is_not_listed(
    gateway: Way, bucket: str, delete: Callable[..., None]
) -> None:
    s3 = gateway.s3()
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    delete(s3, bucket, KEYS[:3])
    assert _folders(s3, bucket, "", 2) == ["app-old/"]
    assert _folders(s3, bucket, "app/", 2) == []


def _folders(s3: Any, bucket: str, prefix: str, list_type: int) -> list[str]:
    call = s3.list_objects_v2 if list_type == 2 else s3.list_objects
    found = call(Bucket=bucket, Prefix=prefix, Delimiter="/").get("CommonPrefixes", [])
    return sorted(entry["Prefix"] for entry in found)
