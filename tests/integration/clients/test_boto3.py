"""boto3 through the gateway and directly at the backend: same calls, same results."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from ways import MIB, Files, Way, Ways

ODD_KEYS = [
    "colon:key",
    "new\nline",
    "deep/er/key",
    "emoji-🌊",
    "sp ace",
    "pl+us",
    "per%cent",
    "per%2Fcent",
    "quest?ion",
    "amp&er=sand",
    "quote'\"<>",
    "héllo",
    "semi;colon,comma",
    "~tilde*star",
    "k" * 1024,
    "ü" * 512,
]

# What SeaweedFS does not keep as it was written: it stores another key, or no contents.
KEYS_THE_STORE_CHANGES = ["double//slash", "trailing/", "back\\slash"]


def test_sizes_from_one_byte_to_multipart_come_back_as_they_went(ways: Ways, files: Files) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "sizes")
        transfer = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=16 * MIB)
        for name in files.sizes:
            client.upload_file(str(files.path(name)), bucket, name, Config=transfer)
        bodies = {name: _digest(client.get_object(Bucket=bucket, Key=name)["Body"].read()) for name in files.sizes}
        return bodies, _listing(client, bucket)

    bodies, listing = ways.compared(script)
    assert bodies == {name: _digest(files.contents(name)) for name in files.sizes}
    assert {name: size for name, size, _ in listing} == files.sizes
    assert next(etag for name, _, etag in listing if name == "hundred-mib").endswith('-7"')


def test_ranges_copies_and_conditions(ways: Ways, files: Files) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "ranges")
        client.upload_file(str(files.path("five-mib")), bucket, "source", ExtraArgs={"Metadata": {"colour": "blue"}})
        client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "source"})
        ranges = {}
        for wanted in ("bytes=0-0", "bytes=1000-1999", "bytes=-10", f"bytes={5 * MIB - 1}-"):
            answer = client.get_object(Bucket=bucket, Key="copy", Range=wanted)
            ranges[wanted] = (answer["ContentRange"], _digest(answer["Body"].read()))
        etag = client.head_object(Bucket=bucket, Key="copy")["ETag"]
        return (
            ranges,
            client.head_object(Bucket=bucket, Key="copy")["Metadata"],
            _code(lambda: client.get_object(Bucket=bucket, Key="copy", Range="bytes=99999999-")),
            _code(lambda: client.get_object(Bucket=bucket, Key="copy", IfNoneMatch=etag)),
            _code(lambda: client.get_object(Bucket=bucket, Key="copy", IfMatch='"other"')),
            _code(lambda: client.put_object(Bucket=bucket, Key="copy", Body=b"", IfNoneMatch="*")),
            _code(lambda: client.get_object(Bucket=bucket, Key="nothing")),
        )

    ranges, metadata, *codes = ways.compared(script)
    contents = files.contents("five-mib")
    assert ranges["bytes=1000-1999"] == (f"bytes 1000-1999/{5 * MIB}", _digest(contents[1000:2000]))
    assert metadata == {"colour": "blue"}
    assert codes == ["InvalidRange", "304", "PreconditionFailed", "PreconditionFailed", "NoSuchKey"]


def test_tags_versions_and_deletes(ways: Ways) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "versions")
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        first = client.put_object(Bucket=bucket, Key="key", Body=b"first", Tagging="a=1&b=2")["VersionId"]
        client.put_object(Bucket=bucket, Key="key", Body=b"second")
        client.put_object_tagging(Bucket=bucket, Key="key", Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
        tags = [
            client.get_object_tagging(Bucket=bucket, Key="key", VersionId=first)["TagSet"],
            client.get_object_tagging(Bucket=bucket, Key="key")["TagSet"],
        ]
        marker = client.delete_object(Bucket=bucket, Key="key")
        gone = _code(lambda: client.get_object(Bucket=bucket, Key="key"))
        old = client.get_object(Bucket=bucket, Key="key", VersionId=first)["Body"].read()
        before = _versions(client, bucket)
        client.delete_object(Bucket=bucket, Key="key", VersionId=marker["VersionId"])
        back = client.get_object(Bucket=bucket, Key="key")["Body"].read()
        several = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "key", "VersionId": first}]})
        return tags, marker["DeleteMarker"], gone, old, before, back, len(several["Deleted"]), _versions(client, bucket)

    tags, marker, gone, old, before, back, deleted, after = ways.compared(script)
    assert tags == [[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}], [{"Key": "c", "Value": "3"}]]
    assert (marker, gone, old, back, deleted) == (True, "NoSuchKey", b"first", b"second", 1)
    assert before == [("key", "marker", True), ("key", "version", False), ("key", "version", False)]
    assert after == [("key", "version", True)]


def test_uploads_in_parts_can_be_listed_and_aborted(ways: Ways) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "parts")
        upload = client.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
        for number in (1, 2):
            client.upload_part(Bucket=bucket, Key="big", UploadId=upload, PartNumber=number, Body=b"x" * 5 * MIB)
        parts = client.list_parts(Bucket=bucket, Key="big", UploadId=upload)["Parts"]
        open_uploads = [one["Key"] for one in client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]
        client.abort_multipart_upload(Bucket=bucket, Key="big", UploadId=upload)
        left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return [(part["PartNumber"], part["Size"], part["ETag"]) for part in parts], open_uploads, left

    parts, open_uploads, left = ways.compared(script)
    assert [(number, size) for number, size, _ in parts] == [(1, 5 * MIB), (2, 5 * MIB)]
    assert (open_uploads, left) == (["big"], [])


def test_presigned_addresses_work_without_a_key(ways: Ways) -> None:
    def script(way: Way) -> Any:
        client = way.s3(signature_version="s3v4")
        bucket = _bucket(client, way, "presigned")
        name = {"Bucket": bucket, "Key": "pre signed/ü+&"}
        put = httpx.put(
            client.generate_presigned_url("put_object", name, ExpiresIn=60), content=b"presigned", timeout=30
        )
        address = client.generate_presigned_url("get_object", name, ExpiresIn=60)
        get = httpx.get(address, timeout=30)
        part = httpx.get(address, headers={"Range": "bytes=3-5"}, timeout=30)
        forged = httpx.get(address[:-1] + ("0" if address[-1] != "0" else "1"), timeout=30)
        return put.status_code, get.status_code, get.content, part.status_code, part.content, forged.status_code

    assert ways.compared(script) == (200, 200, b"presigned", 206, b"sig", 403)


@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key)[:24])
def test_an_odd_key_is_written_read_listed_copied_and_deleted_as_at_the_backend(ways: Ways, key: str) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "odd")
        seen = [
            _code(lambda: client.put_object(Bucket=bucket, Key=key, Body=b"odd", Tagging="odd=yes")),
            _code(lambda: client.get_object(Bucket=bucket, Key=key)["Body"].read()),
            _code(lambda: client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]),
            _code(lambda: client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})),
            _listing(client, bucket),
            _code(lambda: client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]}).get("Errors")),
            _code(lambda: client.delete_object(Bucket=bucket, Key="copy")),
            _listing(client, bucket),
        ]
        client.delete_object(Bucket=bucket, Key=key)
        return seen

    ways.compared(script)


@pytest.mark.parametrize("key", KEYS_THE_STORE_CHANGES)
def test_a_key_that_the_store_would_change_is_refused_and_leaves_nothing(ways: Ways, key: str) -> None:
    direct = ways.direct.s3()
    bucket = _bucket(direct, ways.direct, "changed")
    direct.put_object(Bucket=bucket, Key=key, Body=b"odd")
    kept = [(name, size) for name, size, _ in _listing(direct, bucket)]
    assert (key, 3) not in kept
    direct.delete_object(Bucket=bucket, Key=key)

    client = ways.gateway.s3()
    bucket = _bucket(client, ways.gateway, "changed")
    assert _code(lambda: client.put_object(Bucket=bucket, Key=key, Body=b"odd")) == "InvalidArgument"
    assert _listing(client, bucket) == []


def test_more_objects_than_a_page_holds_are_listed_in_order(ways: Ways) -> None:
    def script(way: Way) -> Any:
        client = way.s3()
        bucket = _bucket(client, way, "pages")
        for number in range(25):
            client.put_object(Bucket=bucket, Key=f"dir-{number % 3}/{number:02}", Body=b"")
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 10})
        keys = [entry["Key"] for page in pages for entry in page["Contents"]]
        prefixes = client.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
        return keys, prefixes

    keys, prefixes = ways.compared(script)
    assert keys == sorted(f"dir-{number % 3}/{number:02}" for number in range(25))
    assert [one["Prefix"] for one in prefixes] == ["dir-0/", "dir-1/", "dir-2/"]


def _bucket(client: Any, way: Way, name: str) -> str:
    """Both ways lead to one store, so each has a bucket of its own."""
    bucket = f"boto3-{name}-{way.name}"
    if bucket not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=bucket)
    return bucket


def _listing(client: Any, bucket: str) -> list[tuple[str, int, str]]:
    return [(e["Key"], e["Size"], e["ETag"]) for e in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def _versions(client: Any, bucket: str) -> list[tuple[str, str, bool]]:
    answer = client.list_object_versions(Bucket=bucket)
    found = [(e["Key"], "version", e["IsLatest"]) for e in answer.get("Versions", [])]
    return sorted(found + [(e["Key"], "marker", e["IsLatest"]) for e in answer.get("DeleteMarkers", [])])


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _code(call: Any) -> Any:
    """The error's code, or the result where it is no mere answer with a request id in it."""
    try:
        result = call()
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "done" if isinstance(result, dict) else result
