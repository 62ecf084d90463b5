"""What the healer finds in the store about a change that was left open, and what it makes of it in the log.

The changes are made behind the gateways' backs and noted down as a gateway does that is killed right afterwards.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from open_places import give_to_service
from places import Place
from replayed import all_events, compare, direct_client, wait_until_healed
from replayed_events import ReplayedBucket, replay

from tidegate.core.events import Event, EventKind
from tidegate.gateway.changes.intents import Intent, Intents

PLAIN, VERSIONED, CROWDED, SET = "found-plain", "found-versioned", "found-crowded", "found-attributes"
# Listings tell whole seconds, and the healer allows for clocks that differ a little.
OLD_SECONDS = 4.0
ODD = "a:b\nc/d é\U0001f600 " + "/k".join(["k" * 200] * 5)
PART = 5 << 20


class Scene:
    """Everything is changed at once, and looked into at once: a round of the healer takes seconds."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.s3 = place.s3
        self.started: list[Intent] = []
        self.ids: dict[str, str] = {}
        for bucket in (PLAIN, VERSIONED, CROWDED, SET):
            self.s3.create_bucket(Bucket=bucket)
        for bucket in (VERSIONED, CROWDED):
            self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        self.direct: Any = direct_client(place.service, place.key)
        self._before()
        self.old = replay(all_events(place.service))
        time.sleep(OLD_SECONDS)
        self.now = time.time()
        self._in_plain()
        self._in_versioned()
        self._elsewhere()
        self._leave()
        self.log = [event for event in all_events(place.service) if event.bucket.startswith("found-")]
        self.new = replay(self.log)

    def _before(self) -> None:
        for key in ("overwritten", "deleted", "untouched", "tagged", "source"):
            self.s3.put_object(Bucket=PLAIN, Key=key, Body=b"old", Tagging="is=old")
        self.ids["aborted"] = self.s3.create_multipart_upload(Bucket=PLAIN, Key="aborted")["UploadId"]
        self.ids["open"] = self.s3.create_multipart_upload(Bucket=PLAIN, Key="open")["UploadId"]
        self.ids["in parts"] = self.s3.create_multipart_upload(Bucket=PLAIN, Key="in parts")["UploadId"]
        for key in ("overwritten", "marked", "older tagged", "tagged and followed", "untouched"):
            self.ids[key] = self.s3.put_object(Bucket=VERSIONED, Key=key, Body=b"1")["VersionId"]
        for key in ("older tagged", "removed", "kept"):
            self.ids[f"{key}, 2"] = self.s3.put_object(Bucket=VERSIONED, Key=key, Body=b"2")["VersionId"]
        self.s3.put_object(Bucket=CROWDED, Key="k", Body=b"among many")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda number: self.direct.put_object(Bucket=CROWDED, Key=f"k-{number}"), range(1010)))

    def _in_plain(self) -> None:
        direct = self.direct
        direct.put_object(Bucket=PLAIN, Key="new", Body=b"new!", Tagging="a=b&c=d", StorageClass="STANDARD_IA")
        direct.put_object(Bucket=PLAIN, Key="overwritten", Body=b"overwritten")
        direct.delete_object(Bucket=PLAIN, Key="deleted")
        self._tag("tagged", PLAIN)
        direct.copy_object(Bucket=PLAIN, Key="copied", CopySource=f"{PLAIN}/source")
        direct.put_object(Bucket=PLAIN, Key=ODD, Body=b"odd")
        direct.put_object(Bucket=PLAIN, Key="folder/", Body=b"")
        for key in ("new", "overwritten", "deleted", "tagged", "copied", ODD, "folder/", "untouched", "never"):
            self._open(PLAIN, key)
        self._complete()
        direct.abort_multipart_upload(Bucket=PLAIN, Key="aborted", UploadId=self.ids["aborted"])
        self.ids["started"] = direct.create_multipart_upload(Bucket=PLAIN, Key="started")["UploadId"]
        for key in ("in parts", "aborted", "open"):
            self._open(PLAIN, key, upload_id=self.ids[key])
        self._open(PLAIN, "started")

    def _complete(self) -> None:
        named = {"Bucket": PLAIN, "Key": "in parts", "UploadId": self.ids["in parts"]}
        parts = [
            {"PartNumber": number, "ETag": self.direct.upload_part(**named, PartNumber=number, Body=body)["ETag"]}
            for number, body in ((1, bytes(PART)), (2, b"end"))
        ]
        self.direct.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})

    def _in_versioned(self) -> None:
        direct = self.direct
        direct.put_object(Bucket=VERSIONED, Key="overwritten", Body=b"2")
        direct.delete_object(Bucket=VERSIONED, Key="marked")
        direct.delete_object(Bucket=VERSIONED, Key="removed", VersionId=self.ids["removed, 2"])
        self._tag("older tagged", VERSIONED, VersionId=self.ids["older tagged"])
        self._tag("tagged and followed", VERSIONED)
        self.s3.put_object(Bucket=VERSIONED, Key="tagged and followed", Body=b"2")
        for key in ("overwritten", "marked", "tagged and followed", "untouched"):
            self._open(VERSIONED, key)
        self._open(VERSIONED, "removed", self.ids["removed, 2"])
        self._open(VERSIONED, "kept", self.ids["kept, 2"])
        self._open(VERSIONED, "older tagged", self.ids["older tagged"])

    def _elsewhere(self) -> None:
        self._open(CROWDED, "k")
        self.direct.put_bucket_versioning(Bucket=SET, VersioningConfiguration={"Status": "Enabled"})
        self._open(SET, "")
        self._open("no-such-bucket", "k")

    def _tag(self, key: str, bucket: str, **options: str) -> None:
        tags = {"TagSet": [{"Key": "late", "Value": "tag"}]}
        self.direct.put_object_tagging(Bucket=bucket, Key=key, Tagging=tags, **options)

    def _open(self, bucket: str, key: str, version_id: str = "", upload_id: str = "") -> None:
        self.started.append(Intent(self.now, self.place.key.pool, bucket, ((key, version_id),), upload_id))

    def _leave(self) -> None:
        """As a gateway that is killed now."""
        directory = self.place.service.data / "run" / "intents"
        intents = Intents(directory)
        for intent in self.started:
            intents.begin(intent)
        for file in directory.glob(f"{os.getpid()}-*"):
            give_to_service(file)
        intents.close()
        wait_until_healed(self.place.service)

    def found(self, bucket: str, key: str) -> list[Event]:
        """What the healer has written about the key."""
        ours = [event for event in self.log if (event.bucket, event.key) == (bucket, key)]
        return [event for event in ours if event.source.endswith("/healer")]

    def kinds(self, bucket: str, key: str) -> list[EventKind]:
        """Tags that have not changed are told again unless the healer, which follows the log, has read of them."""
        return [event.operation for event in self.found(bucket, key)]


@pytest.fixture(scope="module")
def scene(place: Place) -> Scene:
    return Scene(place)


def created(state: ReplayedBucket, key: str) -> list[tuple[str, int]]:
    return [(version.version_id, version.ts_ns) for version in state.versions[key]]


def test_the_log_replays_to_the_listing(scene: Scene) -> None:
    compare(scene.place.service, scene.place.key, [PLAIN, VERSIONED])


def test_a_new_object_is_told_with_everything(scene: Scene) -> None:
    (event,) = scene.found(PLAIN, "new")
    assert (event.operation, event.size, event.storage_class) == (EventKind.PUT, 4, "STANDARD_IA")
    assert dict(event.tags) == {"a": "b", "c": "d"}
    assert event.etag == scene.direct.head_object(Bucket=PLAIN, Key="new")["ETag"].strip('"')
    assert (event.pool, event.bucket_uid, event.owner) != ("", "", "")


@pytest.mark.parametrize("key", [ODD, "folder/", "copied", "overwritten"])
def test_keys_of_every_kind_are_found(scene: Scene, key: str) -> None:
    assert scene.kinds(PLAIN, key) == [EventKind.PUT]


def test_a_completed_upload_is_told_with_the_etag_that_clients_see(scene: Scene) -> None:
    put, ended = scene.found(PLAIN, "in parts")
    assert (put.operation, put.size) == (EventKind.PUT, PART + 3)
    assert put.etag == scene.direct.head_object(Bucket=PLAIN, Key="in parts")["ETag"].strip('"')
    assert put.etag.endswith("-2")
    assert (ended.operation, ended.upload_id) == (EventKind.UPLOAD_ABORTED, scene.ids["in parts"])


def test_uploads_that_began_or_ended_are_told(scene: Scene) -> None:
    assert EventKind.UPLOAD_STARTED in scene.kinds(PLAIN, "started")
    assert EventKind.UPLOAD_ABORTED in scene.kinds(PLAIN, "aborted")
    uploads = scene.new[PLAIN].uploads
    assert uploads == {scene.ids["started"]: "started", scene.ids["open"]: "open"}


def test_what_is_gone_is_told(scene: Scene) -> None:
    assert scene.kinds(PLAIN, "deleted") == [EventKind.DELETE]
    *tagging, last = scene.kinds(VERSIONED, "marked")
    assert (set(tagging) <= {EventKind.TAGGING}, last) == (True, EventKind.DELETE_MARKER)
    (event,) = scene.found(VERSIONED, "removed")
    assert (event.operation, event.version_id) == (EventKind.DELETE, scene.ids["removed, 2"])


def test_what_has_not_changed_keeps_its_time(scene: Scene) -> None:
    for bucket, key in ((PLAIN, "untouched"), (VERSIONED, "untouched"), (VERSIONED, "kept"), (PLAIN, "tagged")):
        assert set(scene.kinds(bucket, key)) <= {EventKind.TAGGING}, key
        assert created(scene.new[bucket], key) == created(scene.old[bucket], key)
    before = created(scene.old[VERSIONED], "overwritten")
    assert created(scene.new[VERSIONED], "overwritten")[1:] == before


def test_what_never_was_does_not_come_about(scene: Scene) -> None:
    assert EventKind.PUT not in scene.kinds(PLAIN, "never")
    assert "never" not in scene.new[PLAIN].versions


def test_tags_are_told_of_the_version_that_has_them(scene: Scene) -> None:
    (event,) = scene.found(PLAIN, "tagged")
    assert (event.operation, dict(event.tags)) == (EventKind.TAGGING, {"late": "tag"})
    (event,) = scene.found(VERSIONED, "older tagged")
    assert (event.version_id, dict(event.tags)) == (scene.ids["older tagged"], {"late": "tag"})
    tags = {version.version_id: dict(version.tags) for version in scene.new[VERSIONED].versions["tagged and followed"]}
    assert tags.pop(scene.ids["tagged and followed"]) == {"late": "tag"}
    assert list(tags.values()) == [{}]


def test_a_key_among_many_that_begin_with_it_is_not_taken_for_deleted(scene: Scene) -> None:
    assert set(scene.kinds(CROWDED, "k")) <= {EventKind.TAGGING}
    assert created(scene.new[CROWDED], "k") == created(scene.old[CROWDED], "k")


def test_a_buckets_versioning_is_told(scene: Scene) -> None:
    (event,) = scene.found(SET, "")
    assert event.operation is EventKind.BUCKET_ATTRIBUTES
    assert dict(event.attributes) == {"versioning": "Enabled", "lifecycle": ""}
