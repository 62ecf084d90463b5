"""Clients learn of delete markers what S3 would tell them, though the store does not say it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from botocore.exceptions import ClientError
from metadata_log import settings_of
from places import Place
from raw_http import Answer, Wire, request
from scripted_backend import LoneGateway, Store, Visit

from tidegate.assembly import open_tables
from tidegate.core.records import Bucket, BucketState
from tidegate.gateway.changes.bucket_states import note_created
from tidegate.pools.changes import ChangeCounter

ATTRIBUTES = {"x-amz-object-attributes": "ETag,ObjectSize"}
# How an object is read: method, sub-resource, headers.
READS = [
    ("GET", "", {}),
    ("HEAD", "", {}),
    ("GET", "", {"Range": "bytes=0-1"}),
    ("GET", "", {"If-Match": '"x"'}),
    ("HEAD", "", {"If-None-Match": "*"}),
    ("GET", "tagging=", {}),
    ("GET", "attributes=", ATTRIBUTES),
    ("GET", "attributes=", {"x-amz-object-attributes": "Checksum"}),
]
NAMES = ["GET", "HEAD", "range", "if-match", "if-none-match", "tagging", "attributes", "checksum"]


class Deleted(NamedTuple):
    """A key whose newest version is a marker."""

    bucket: str
    key: str
    object_id: str
    marker_id: str


@pytest.fixture(params=["Enabled", "Suspended"])
def versioning(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def deleted(place: Place, fresh_name: Callable[[str], str], versioning: str) -> Deleted:
    bucket, key = fresh_name("markers"), "folder/key: ü"
    place.s3.create_bucket(Bucket=bucket)
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = place.s3.put_object(Bucket=bucket, Key=key, Body=b"data")["VersionId"]
    place.s3.put_object(Bucket=bucket, Key=key + "-neighbour", Body=b"another")
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": versioning})
    marker = place.s3.delete_object(Bucket=bucket, Key=key)
    assert marker["DeleteMarker"] and marker["VersionId"] != first
    assert (marker["VersionId"] == "null") == (versioning == "Suspended")
    return Deleted(bucket, key, first, marker["VersionId"])


def ask(place: Place, deleted: Deleted, method: str, query: str, headers: dict[str, str], version: str = "") -> Answer:
    path = f"/{deleted.bucket}/folder/key%3A%20%C3%BC"
    parameters = "&".join(part for part in (query, f"versionId={version}" if version else "") if part)
    return place.ask(method, f"{path}?{parameters}" if parameters else path, headers=headers)


@pytest.mark.parametrize(("method", "query", "headers"), READS, ids=NAMES)
def test_a_marker_in_place_of_the_newest_version_is_told(
    place: Place, deleted: Deleted, method: str, query: str, headers: dict[str, str]
) -> None:
    answer = ask(place, deleted, method, query, headers)
    assert answer.status == 404
    assert answer.headers["x-amz-delete-marker"] == "true"
    assert answer.headers["x-amz-version-id"] == deleted.marker_id
    assert method == "HEAD" or answer.code == "NoSuchKey"


@pytest.mark.parametrize(("method", "query", "headers"), READS, ids=NAMES)
def test_a_marker_itself_can_only_be_deleted(
    place: Place, deleted: Deleted, method: str, query: str, headers: dict[str, str]
) -> None:
    answer = ask(place, deleted, method, query, headers, deleted.marker_id)
    assert answer.status == 405
    assert answer.headers["x-amz-delete-marker"] == "true"
    assert answer.headers["x-amz-version-id"] == deleted.marker_id
    assert answer.headers["allow"] == "DELETE"
    parsedate_to_datetime(answer.headers["last-modified"])
    assert method == "HEAD" or answer.code == "MethodNotAllowed"


def test_tags_of_a_marker_cannot_be_changed(place: Place, deleted: Deleted) -> None:
    body = b"<Tagging><TagSet/></Tagging>"
    path = f"/{deleted.bucket}/folder/key%3A%20%C3%BC?tagging=&versionId={deleted.marker_id}"
    assert place.ask("PUT", path, body).status == 405
    assert place.ask("DELETE", path).status == 405


def test_what_lies_under_a_marker_is_read_as_before(place: Place, deleted: Deleted) -> None:
    answer = ask(place, deleted, "GET", "", {}, deleted.object_id)
    assert (answer.status, answer.body) == (200, b"data")
    assert "x-amz-delete-marker" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_was_never_there_is_no_marker(place: Place, deleted: Deleted, method: str) -> None:
    for path in ("folder/never", "folder", f"folder/never?versionId={'0' * 32}"):
        answer = place.ask(method, f"/{deleted.bucket}/{path}")
        assert answer.status == 404
        assert "x-amz-delete-marker" not in answer.headers
    assert ask(place, deleted, "GET", "", {}, "0" * 32).code == "NoSuchVersion"


def test_a_key_that_was_written_again_is_there(place: Place, deleted: Deleted) -> None:
    place.s3.put_object(Bucket=deleted.bucket, Key=deleted.key, Body=b"again")
    assert ask(place, deleted, "GET", "", {}).body == b"again"


def test_a_bucket_whose_versioning_begins_is_looked_at_at_once(place: Place, fresh_name: Callable[[str], str]) -> None:
    bucket = fresh_name("markers")
    place.s3.create_bucket(Bucket=bucket)
    place.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert place.ask("GET", f"/{bucket}/none").status == 404
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    marker = place.s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    for _ in range(4):  # by both gateways
        assert place.ask("HEAD", f"/{bucket}/k").headers.get("x-amz-version-id") == marker


def test_the_versioning_of_a_bucket_that_a_command_made_is_found_out(
    place: Place, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("command")
    place.service.cli("bucket", "create", bucket, "--pool", place.key.pool)
    assert place.ask("GET", f"/{bucket}/none").status == 404
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        uid = Bucket.from_json(tables.get(Bucket.PREFIX + bucket) or "").uid
        assert BucketState.from_json(tables.get(BucketState.PREFIX + uid) or "").versioning == "Off"
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    marker = place.s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    assert place.ask("GET", f"/{bucket}/k").headers["x-amz-version-id"] == marker


def test_a_marker_is_no_source_of_a_copy(place: Place, deleted: Deleted) -> None:
    upload = place.s3.create_multipart_upload(Bucket=place.bucket, Key="parts")["UploadId"]
    for version, code in (("", "NoSuchKey"), (deleted.marker_id, "InvalidRequest"), ("0" * 32, "NoSuch")):
        source = {"Bucket": deleted.bucket, "Key": deleted.key} | ({"VersionId": version} if version else {})
        with pytest.raises(ClientError) as refused:
            place.s3.copy_object(Bucket=place.bucket, Key="copy", CopySource=source)
        assert refused.value.response["Error"]["Code"].startswith(code)
        with pytest.raises(ClientError) as refused:
            place.s3.upload_part_copy(
                Bucket=place.bucket, Key="parts", UploadId=upload, PartNumber=1, CopySource=source
            )
        assert refused.value.response["Error"]["Code"].startswith(code)
    assert place.stored("copy") is None


# --- what it costs -------------------------------------------------------------------------------


MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def finds_nothing(visit: Visit) -> None:
    while True:
        visit.head()
        visit.send(MISSING)


def test_a_bucket_without_versions_costs_no_look(tmp_path: Path) -> None:
    gateway = LoneGateway(tmp_path / "data", Store())
    changes = ChangeCounter(gateway.data)
    uid = Bucket.from_json(gateway.tables.get(Bucket.PREFIX + gateway.bucket) or "").uid
    try:
        for is_versioned, looks in ((False, 0), (True, 1)):
            note_created(gateway.tables, uid, is_versioned=is_versioned)
            changes.bump()
            gateway.store.play(finds_nothing)
            with Wire(gateway.url) as wire:
                assert wire.ask(request(gateway.url, gateway.key, "GET", gateway.path("k"))).status == 404
            assert gateway.store.asked(b"GET ") == 1 + looks
    finally:
        changes.close()
        gateway.end()
