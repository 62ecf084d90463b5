"""Every change becomes one event with all its fields, before the client hears of it."""

from __future__ import annotations

import json
import socket
import struct
import urllib.parse

import pytest
from held_log import held_log
from metadata_log import MetadataLog
from places import Place
from raw_http import until

from tidegate.core.events import Event, EventKind


@pytest.fixture
def log(place: Place):
    opened = MetadataLog(place.service)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def versioned(place: Place) -> str:
    place.s3.create_bucket(Bucket="events-versioned")
    place.s3.put_bucket_versioning(Bucket="events-versioned", VersioningConfiguration={"Status": "Enabled"})
    return "events-versioned"


def test_a_put_carries_everything(place: Place, log: MetadataLog) -> None:
    key = "a:b\nc/d é \U0001f600 " + "/k".join(["k" * 200] * 5)
    assert 1000 < len(key.encode()) <= 1024
    answer = place.s3.put_object(
        Bucket=place.bucket, Key=key, Body=b"hello", Tagging="a=1&b=x%20y", StorageClass="STANDARD_IA"
    )
    event = log.one()
    assert (event.operation, event.pool, event.bucket, event.key) == (EventKind.PUT, place.key.pool, place.bucket, key)
    assert (event.size, event.etag, event.version_id) == (5, answer["ETag"].strip('"'), "")
    assert dict(event.tags) == {"a": "1", "b": "x y"}
    assert event.storage_class == "STANDARD_IA"
    assert event.bucket_uid and event.owner
    assert event.source.startswith("gateway:") and "/" in event.source


@pytest.mark.parametrize("size", [0, 1, 70_000, 3 << 20])
def test_the_size_is_that_of_the_object_however_it_was_sent(place: Place, log: MetadataLog, size: int) -> None:
    place.s3.put_object(Bucket=place.bucket, Key=place.fresh(), Body=b"s" * size)
    assert log.one().size == size
    place.s3.put_object(Bucket=place.bucket, Key=place.fresh(), Body=b"s" * size, ChecksumAlgorithm="SHA256")
    assert log.one().size == size
    key = place.fresh()
    url = place.s3.generate_presigned_url("put_object", Params={"Bucket": place.bucket, "Key": key})
    parts = urllib.parse.urlsplit(url)
    with place.wire() as wire:
        lines = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire.send(lines.encode() + (b"%x\r\n%b\r\n" % (size, b"s" * size) if size else b""))
        assert wire.ask(b"0\r\n\r\n").status == 200
    event = log.one()
    assert (event.key, event.size) == (key, size)


def test_what_fails_leaves_no_event(place: Place, log: MetadataLog) -> None:
    place.ask("PUT", place.path(place.fresh()), b"x", headers={"If-Match": '"0"'})
    place.ask("PUT", place.path(place.fresh()), b"x", payload="0" * 64)
    place.ask("GET", place.path("no-such-key"))
    place.anonymous("PUT", place.path(place.fresh()), b"x")
    place.ask("PUT", place.path(place.fresh(), "tagging="), b"<Tagging/>")
    assert log.news() == []


def test_tags_that_the_log_could_not_take_down_are_refused_before_anything_is_stored(
    place: Place, log: MetadataLog
) -> None:
    key = place.fresh()
    many = "&".join(f"t{number}=v" for number in range(11))
    for tags in (many, "a=1&a=2", "=v"):
        answer = place.ask("PUT", place.path(key), b"x", headers={"x-amz-tagging": tags})
        assert answer.status == 400, tags
    assert place.stored(key) is None and log.news() == []


def test_a_delete_without_versions_is_one_event(place: Place, log: MetadataLog) -> None:
    key = place.fresh()
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    put = log.one()
    place.s3.delete_object(Bucket=place.bucket, Key=key)
    event = log.one()
    assert (event.operation, event.key, event.version_id) == (EventKind.DELETE, key, "")
    assert event.ts_ns > put.ts_ns


def test_versions_markers_and_deletes_of_versions_are_told_apart(
    place: Place, log: MetadataLog, versioned: str
) -> None:
    log.news()
    first = place.s3.put_object(Bucket=versioned, Key="v", Body=b"1")["VersionId"]
    marker = place.s3.delete_object(Bucket=versioned, Key="v")["VersionId"]
    place.s3.delete_object(Bucket=versioned, Key="v", VersionId=first)
    place.s3.delete_object(Bucket=versioned, Key="v", VersionId=marker)
    assert [(event.operation, event.version_id) for event in log.news()] == [
        (EventKind.PUT, first),
        (EventKind.DELETE_MARKER, marker),
        (EventKind.DELETE, first),
        (EventKind.DELETE, marker),
    ]


def test_a_multiple_delete_is_an_event_for_each_that_was_deleted(
    place: Place, log: MetadataLog, versioned: str
) -> None:
    keys = [place.fresh("multi") for _ in range(3)]
    version = place.s3.put_object(Bucket=versioned, Key=keys[0], Body=b"1")["VersionId"]
    place.s3.put_object(Bucket=versioned, Key=keys[1], Body=b"1")
    log.news()
    answer = place.s3.delete_objects(
        Bucket=versioned,
        Delete={
            "Objects": [
                {"Key": keys[0], "VersionId": version},
                {"Key": keys[1]},
                {"Key": keys[2], "ETag": '"0"'},
            ]
        },
    )
    assert {error["Key"] for error in answer.get("Errors", ())} <= {keys[2]}
    found = {event.key: event for event in log.news()}
    assert (found[keys[0]].operation, found[keys[0]].version_id) == (EventKind.DELETE, version)
    assert found[keys[1]].operation == EventKind.DELETE_MARKER and found[keys[1]].version_id
    assert set(found) - {keys[2]} == set(keys[:2])


def test_a_copy_tells_what_came_about(place: Place, log: MetadataLog) -> None:
    source, target = place.fresh(), place.fresh()
    place.s3.put_object(Bucket=place.bucket, Key=source, Body=b"copied", Tagging="from=source")
    log.news()
    answer = place.s3.copy_object(Bucket=place.bucket, Key=target, CopySource={"Bucket": place.bucket, "Key": source})
    event = log.one()
    assert (event.operation, event.key, event.size) == (EventKind.PUT, target, 6)
    assert event.etag == answer["CopyObjectResult"]["ETag"].strip('"')
    stored = place.s3.get_object_tagging(Bucket=place.bucket, Key=target)["TagSet"]
    assert dict(event.tags) == {tag["Key"]: tag["Value"] for tag in stored}


def test_a_multipart_upload_is_told_from_start_to_end(place: Place, log: MetadataLog) -> None:
    key = place.fresh()
    upload = place.s3.create_multipart_upload(Bucket=place.bucket, Key=key, Tagging="kind=big")["UploadId"]
    started = log.one()
    assert (started.operation, started.key, started.upload_id) == (EventKind.UPLOAD_STARTED, key, upload)
    part = place.s3.upload_part(Bucket=place.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"p" * 100)
    assert log.news() == [], "a part changes nothing that anybody sees"
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    answer = place.s3.complete_multipart_upload(Bucket=place.bucket, Key=key, UploadId=upload, MultipartUpload=parts)
    done = log.one()
    assert (done.operation, done.size, done.upload_id) == (EventKind.PUT, 100, upload)
    assert done.etag == answer["ETag"].strip('"')
    stored = place.s3.get_object_tagging(Bucket=place.bucket, Key=key)["TagSet"]
    assert dict(done.tags) == {tag["Key"]: tag["Value"] for tag in stored}


def test_an_upload_that_is_given_up_is_told(place: Place, log: MetadataLog) -> None:
    key = place.fresh()
    upload = place.s3.create_multipart_upload(Bucket=place.bucket, Key=key)["UploadId"]
    place.s3.abort_multipart_upload(Bucket=place.bucket, Key=key, UploadId=upload)
    assert [(event.operation, event.upload_id) for event in log.news()] == [
        (EventKind.UPLOAD_STARTED, upload),
        (EventKind.UPLOAD_ABORTED, upload),
    ]


def test_tagging_carries_all_tags_of_the_version(place: Place, log: MetadataLog) -> None:
    key = place.fresh()
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    log.news()
    place.s3.put_object_tagging(
        Bucket=place.bucket,
        Key=key,
        Tagging={"TagSet": [{"Key": "k", "Value": "a/b:c +d"}, {"Key": "empty", "Value": ""}]},
    )
    event = log.one()
    assert (event.operation, event.key, dict(event.tags)) == (EventKind.TAGGING, key, {"k": "a/b:c +d", "empty": ""})
    place.s3.delete_object_tagging(Bucket=place.bucket, Key=key)
    event = log.one()
    assert (event.operation, event.tags) == (EventKind.TAGGING, ())


def test_buckets_come_change_and_go_with_an_identity_of_their_own(place: Place, log: MetadataLog) -> None:
    bucket = "events-of-a-bucket"
    uids = []
    for _ in range(2):
        place.s3.create_bucket(Bucket=bucket)
        place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        place.s3.delete_bucket(Bucket=bucket)
        events = log.news()
        assert [event.operation for event in events] == [
            EventKind.BUCKET_CREATED,
            EventKind.BUCKET_ATTRIBUTES,
            EventKind.BUCKET_DELETED,
        ]
        assert dict(events[1].attributes) == {"versioning": "Enabled"}
        assert {event.bucket for event in events} == {bucket}
        assert {event.key for event in events} == {""}
        (uid,) = {event.bucket_uid for event in events}
        uids.append(uid)
    assert uids[0] != uids[1], "a bucket made anew is another one"


def test_the_commands_tail_shows_what_was_written(place: Place) -> None:
    key = place.fresh("tail")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    done = place.service.run_cli("metalog", "tail", "-n", "5", "--bucket", place.bucket, "--json")
    assert [json.loads(line)["key"] for line in done.stdout.splitlines()][-1] == key


def test_a_client_that_leaves_without_its_reply_leaves_the_event(place: Place, log: MetadataLog) -> None:
    key = place.fresh()
    wire = place.wire()
    wire.send(place.request("PUT", place.path(key), b"nobody waits"))
    wire.socket.close()
    found: list[Event] = []
    until(lambda: bool(found.extend(log.news()) or found))
    assert (found[0].key, found[0].size) == (key, 12)
    assert place.stored(key) == b"nobody waits"


def test_clients_that_leave_while_the_log_is_written_keep_nobody_from_an_answer(place: Place, log: MetadataLog) -> None:
    """All are in one batch, or in two, of as many gateways."""
    keys = [place.fresh() for _ in range(16)]
    with held_log(place.service):
        wires = [place.wire() for _ in keys]
        for wire, key in zip(wires, keys, strict=True):
            wire.send(place.request("PUT", place.path(key), b"x"))
        until(lambda: all(place.stored(key) == b"x" for key in keys))
        for wire in wires[::2]:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.socket.close()
        until(lambda: all(_has_ended(place, key) for key in keys[::2]))
    assert [wire.answer().status for wire in wires[1::2]] == [200] * 8
    found: list[Event] = []
    until(lambda: len(found.extend(log.news()) or found) == len(keys))
    assert {event.key for event in found} == set(keys)


def _has_ended(place: Place, key: str) -> bool:
    return f'"PUT {place.path(key)} HTTP/1.1"' in (place.service.data / "log" / "access.log").read_text()
