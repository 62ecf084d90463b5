"""Each kind of action acts when it is due, and not before, against the real store.

Everything is arranged at once, so that the waiting is shared, and the pass over which what is left stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from lifecycle_world import World

PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
EXPIRE = {"Expiration": {"Days": 1}}


@dataclass
class Scenes:
    """What was arranged: per bucket, the version ids by name."""

    world: World
    ids: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def note(self, bucket: str, **ids: list[str]) -> None:
        self.ids[bucket] = ids


@pytest.fixture(scope="module")
def scenes(world: World) -> Scenes:
    """When all is due, and a whole pass has found nothing left to do."""
    scenes = Scenes(world)
    for arrange in (_unversioned, _versioned, _suspended, _locked):
        arrange(scenes)
    early = world.run_pass()
    assert early["status"] in ("ok", "blocked"), early
    world.sleep_until_due()
    while "DONE" in world.run_pass()["outcomes"]:
        continue
    return scenes


def _unversioned(scenes: Scenes) -> None:
    world = scenes.world
    world.bucket("by-prefix", {"Filter": {"Prefix": "tmp/"}, **EXPIRE})
    world.put("by-prefix", *(f"tmp/{number:02d}" for number in range(20)), "tmp", "tmp-1", "tmp.x", "keep", "tmpx/1")
    world.bucket("by-tag", {"Filter": {"Tag": {"Key": "kind", "Value": "scratch"}}, **EXPIRE})
    world.put("by-tag", "tagged", Tagging="kind=scratch&a=b")
    world.put("by-tag", "other-value", Tagging="kind=Scratch")
    world.put("by-tag", "untagged", "tagged-later")
    world.s3.put_object_tagging(
        Bucket="by-tag", Key="tagged-later", Tagging={"TagSet": [{"Key": "kind", "Value": "scratch"}]}
    )
    world.bucket(
        "by-size",
        {"Filter": {"ObjectSizeGreaterThan": 10}, **EXPIRE},
        {"Filter": {"ObjectSizeLessThan": 5}, **EXPIRE},
    )
    for size in (0, 4, 5, 10, 11):
        world.put("by-size", f"{size:02d}", body=b"x" * size)
    both = {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}], "ObjectSizeGreaterThan": 3}
    world.bucket("by-all", {"Filter": {"And": both}, **EXPIRE})
    world.put("by-all", "a/match", "b/wrong-prefix", body=b"large", Tagging="k=v")
    world.put("by-all", "a/small", body=b"s", Tagging="k=v")
    world.put("by-all", "a/untagged", body=b"large")
    world.bucket("by-date", {"Filter": {"Prefix": "old/"}, "Expiration": {"Date": PAST}},
                 {"Filter": {"Prefix": "new/"}, "Expiration": {"Date": FUTURE}})  # fmt: skip
    world.put("by-date", "old/1", "new/1")
    world.bucket("odd-objects", EXPIRE)
    _put_odd_objects(world, "odd-objects")
    world.bucket("uploads", {"Filter": {"Prefix": "up/"}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
    started = [
        world.s3.create_multipart_upload(Bucket="uploads", Key=key)["UploadId"]
        for key in (*(f"up/{number}" for number in range(9)), "up/0", "other")
    ]
    scenes.note("uploads", doomed=started[:-1], kept=started[-1:])
    world.bucket("disabled", {"Status": "Disabled", **EXPIRE})
    world.put("disabled", "stays")
    world.bucket("withdrawn", EXPIRE)
    world.put("withdrawn", "stays")
    world.s3.delete_bucket_lifecycle(Bucket="withdrawn")


def _put_odd_objects(world: World, bucket: str) -> None:
    """Objects of which the store lists another ETag than it compares, and keys that are hard to write."""
    world.put(bucket, "empty", body=b"")
    upload = world.s3.create_multipart_upload(Bucket=bucket, Key="in-parts")["UploadId"]
    part = world.s3.upload_part(Bucket=bucket, Key="in-parts", UploadId=upload, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    world.s3.complete_multipart_upload(Bucket=bucket, Key="in-parts", UploadId=upload, MultipartUpload=parts)
    world.s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "in-parts"})
    world.put(bucket, "with space+plus&amp;<tag>", "колонка:ключ", "emoji-😀", "line\nbreak", "%41?x=y#z", "q" * 200)


def _versioned(scenes: Scenes) -> None:
    world = scenes.world
    world.bucket("expire-versioned", EXPIRE, versioning="Enabled")
    scenes.note("expire-versioned", versions=world.put("expire-versioned", "a", "b"))
    noncurrent = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
    world.bucket("noncurrent", noncurrent, versioning="Enabled")
    ids = world.put("noncurrent", "k", "k", "k", "single")
    scenes.note("noncurrent", doomed=ids[:2], kept=ids[2:])
    newer = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}}
    world.bucket("newer", newer, versioning="Enabled")
    ids = world.put("newer", *["k"] * 12)
    scenes.note("newer", doomed=ids[:9], kept=ids[9:])
    world.bucket("markers", {"Expiration": {"ExpiredObjectDeleteMarker": True}}, versioning="Enabled")
    world.put("markers", "covered")
    _sole_marker(world, "markers", "sole")
    covering = world.s3.delete_object(Bucket="markers", Key="covered")["VersionId"]
    scenes.note("markers", covering=[covering])
    world.bucket("markers-by-days", EXPIRE, versioning="Enabled")
    _sole_marker(world, "markers-by-days", "sole")


def _sole_marker(world: World, bucket: str, key: str) -> None:
    """A key of which only a delete marker is left."""
    (version,) = world.put(bucket, key)
    world.s3.delete_object(Bucket=bucket, Key=key)
    world.s3.delete_object(Bucket=bucket, Key=key, VersionId=version)


def _suspended(scenes: Scenes) -> None:
    world = scenes.world
    world.bucket("expire-suspended", versioning="Enabled")
    older = world.put("expire-suspended", "k")
    world.s3.put_bucket_versioning(Bucket="expire-suspended", VersioningConfiguration={"Status": "Suspended"})
    world.put("expire-suspended", "k")
    world.rules("expire-suspended", EXPIRE)
    scenes.note("expire-suspended", older=older)
    world.bucket("markers-suspended", versioning="Suspended")
    world.put("markers-suspended", "k")
    world.s3.delete_object(Bucket="markers-suspended", Key="k")  # a null marker, which is all that is left
    world.rules("markers-suspended", {"Expiration": {"ExpiredObjectDeleteMarker": True}})


def _locked(scenes: Scenes) -> None:
    world = scenes.world
    world.lockable_bucket("locks")
    world.rules("locks", {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}})
    until = datetime.now(UTC) + timedelta(hours=1)
    held = world.put("locks", "k", ObjectLockLegalHoldStatus="ON")
    retained = world.put("locks", "k", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    free = world.put("locks", "k", "k")
    scenes.note("locks", locked=held + retained, doomed=free[:1], current=free[1:])


def settled(scenes: Scenes, left: Callable[[], Any], expected: Any, what: str) -> None:
    """What is left is what is expected: a whole pass has left it so."""
    assert left() == expected, what


@pytest.mark.parametrize(
    ("bucket", "left"),
    [
        ("by-prefix", {"tmp", "tmp-1", "tmp.x", "keep", "tmpx/1"}),
        ("by-tag", {"other-value", "untagged"}),
        ("by-size", {"05", "10"}),
        ("by-all", {"b/wrong-prefix", "a/small", "a/untagged"}),
        ("odd-objects", set()),
    ],
)
def test_days_expire_what_the_filter_matches(scenes: Scenes, bucket: str, left: set[str]) -> None:
    settled(scenes, lambda: scenes.world.keys(bucket), left, f"expiry in {bucket}")
    scenes.world.assert_waited(bucket, "delete", scenes.world.put_times(bucket))


def test_a_date_expires_what_there_is_from_then_on(scenes: Scenes) -> None:
    settled(scenes, lambda: scenes.world.keys("by-date"), {"new/1"}, "expiry by date")


def test_uploads_are_aborted_after_their_days(scenes: Scenes) -> None:
    ids = scenes.ids["uploads"]
    settled(scenes, lambda: scenes.world.uploads("uploads"), set(ids["kept"]), "aborted uploads")
    started = {event["upload_id"]: event["ts_ns"] / 1e9 for event in scenes.world.events("uploads", "upload-started")}
    aborted = scenes.world.events("uploads", "upload-aborted")
    assert sorted(event["upload_id"] for event in aborted) == sorted(ids["doomed"])
    assert all(event["ts_ns"] / 1e9 - started[event["upload_id"]] >= 10 for event in aborted)


def test_on_a_versioned_bucket_expiry_adds_a_marker_and_keeps_the_version(scenes: Scenes) -> None:
    world, bucket = scenes.world, "expire-versioned"
    kept = set(zip("ab", scenes.ids[bucket]["versions"], strict=True))
    assert {key for key, _ in world.markers(bucket)} == {"a", "b"}
    world.assert_waited(bucket, "delete-marker", world.put_times(bucket))
    assert world.versions(bucket) == kept
    assert len(world.markers(bucket)) == 2


def test_noncurrent_versions_go_some_days_after_they_were_replaced(scenes: Scenes) -> None:
    ids = scenes.ids["noncurrent"]
    kept = {("k", ids["kept"][0]), ("single", ids["kept"][1])}
    settled(scenes, lambda: scenes.world.versions("noncurrent"), kept, "noncurrent versions")
    puts = [event for event in scenes.world.events("noncurrent", "put") if event["key"] == "k"]
    replaced = {old["version_id"]: new["ts_ns"] / 1e9 for old, new in pairwise(puts)}
    for event in scenes.world.events("noncurrent", "delete"):
        assert event["ts_ns"] / 1e9 - replaced[event["version_id"]] >= 10


def test_so_many_newer_noncurrent_versions_are_kept(scenes: Scenes) -> None:
    kept = {("k", version) for version in scenes.ids["newer"]["kept"]}
    settled(scenes, lambda: scenes.world.versions("newer"), kept, "newer noncurrent versions")


def test_only_a_marker_that_covers_nothing_is_removed(scenes: Scenes) -> None:
    left = {("covered", scenes.ids["markers"]["covering"][0])}
    settled(scenes, lambda: scenes.world.markers("markers"), left, "sole marker")


def test_days_remove_a_sole_marker_as_well(scenes: Scenes) -> None:
    settled(scenes, lambda: scenes.world.markers("markers-by-days"), set(), "sole marker by days")


def test_on_a_suspended_bucket_a_null_marker_takes_the_null_versions_place(scenes: Scenes) -> None:
    world, bucket = scenes.world, "expire-suspended"
    settled(scenes, lambda: world.markers(bucket), {("k", "null")}, "null marker")
    assert world.versions(bucket) == {("k", scenes.ids[bucket]["older"][0])}


def test_a_null_marker_that_the_store_cannot_remove_is_left_alone(scenes: Scenes) -> None:
    assert scenes.world.markers("markers-suspended") == {("k", "null")}
    assert {record["outcome"] for record in scenes.world.audits("markers-suspended")} <= {"NOOP_RESOLVED"}


def test_locked_versions_stay(scenes: Scenes) -> None:
    ids = scenes.ids["locks"]
    kept = {("k", version) for version in ids["locked"] + ids["current"]}
    settled(scenes, lambda: scenes.world.versions("locks"), kept, "versions that are not locked")


@pytest.mark.parametrize("bucket", ["disabled", "withdrawn"])
def test_without_an_enabled_rule_nothing_happens(scenes: Scenes, bucket: str) -> None:
    assert scenes.world.keys(bucket) == {"stays"}


def test_every_action_left_one_audit_record(scenes: Scenes) -> None:
    for bucket in ("by-prefix", "odd-objects", "noncurrent", "uploads"):
        records = scenes.world.audits(bucket)
        events = scenes.world.events(bucket, "delete", "delete-marker", "upload-aborted")
        done = [record for record in records if record["outcome"] == "DONE"]
        assert len(done) == len(records) == len(events), bucket
        assert {(record["key"], record["version_id"], record["upload_id"]) for record in done} == {
            (event["key"], event["version_id"], event["upload_id"]) for event in events
        }
