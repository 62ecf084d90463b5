"""Keys that end in a slash: what a store would lose by them is refused, and what clients do with folders works."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from places import Place


def put(place: Place, key: str, body: bytes = b"") -> None:
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=body)


def keys(place: Place, prefix: str) -> list[str]:
    page = place.s3.list_objects_v2(Bucket=place.bucket, Prefix=prefix)
    return [entry["Key"] for entry in page.get("Contents", [])]


@pytest.mark.parametrize("has_more", [False, True], ids=["alone", "with a key below it"])
def test_a_folder_does_not_replace_an_object_of_its_name(place: Place, has_more: bool) -> None:
    key = place.fresh("both")
    put(place, key, b"data")
    if has_more:
        put(place, f"{key}/below", b"x")
    with pytest.raises(ClientError, match="InvalidArgument"):
        put(place, f"{key}/")
    with pytest.raises(ClientError, match="InvalidArgument"):
        place.s3.copy_object(Bucket=place.bucket, Key=f"{key}/", CopySource=f"{place.bucket}/{key}")
    assert place.stored(key) == b"data"
    assert keys(place, key) == [key, f"{key}/below"][: 1 + has_more]


def test_data_that_a_folder_would_lose_is_refused(place: Place) -> None:
    source, folder = place.fresh("source"), place.fresh("folder") + "/"
    put(place, source, b"data")
    with pytest.raises(ClientError, match="InvalidArgument"):
        place.s3.copy_object(Bucket=place.bucket, Key=folder, CopySource=f"{place.bucket}/{source}")
    with pytest.raises(ClientError, match="InvalidArgument"):
        place.s3.create_multipart_upload(Bucket=place.bucket, Key=folder)
    with pytest.raises(ClientError, match="InvalidArgument"):
        put(place, folder, b"data")
    assert keys(place, folder) == []


def test_a_folder_is_made_and_deleted_with_what_is_in_it_left_alone(place: Place) -> None:
    one = place.fresh("one")
    put(place, f"{one}/")
    put(place, f"{one}/x", b"x")
    assert keys(place, one) == [f"{one}/", f"{one}/x"]
    place.s3.delete_object(Bucket=place.bucket, Key=f"{one}/")
    assert keys(place, one) == [f"{one}/x"]
    with pytest.raises(ClientError, match="404"):
        place.s3.head_object(Bucket=place.bucket, Key=f"{one}/")
