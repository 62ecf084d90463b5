"""The header x-amz-replication-status on replies that show an object, and events of replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from metadata_log import MetadataLog, settings_of
from places import Place
from stored_locations import store_location_of

from tidegate.assembly import open_tables
from tidegate.core.events import Event, EventKind
from tidegate.core.pending_deletes import Component, owner_metadata
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status

HEADER = "x-amz-replication-status"
SITE = "status-site"


class Bucket:
    """A bucket whose rules ask for what lies under `copied/`, and for what has a tag."""

    def __init__(self, place: Place, name: str, log: MetadataLog) -> None:
        self.place = place
        self.name = name
        self.s3: Any = place.s3
        self.log = log
        self.s3.create_bucket(Bucket=name)
        self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        self.uid = next(event.bucket_uid for event in log.news() if event.bucket == name)

    def rules(self, **filters: Any) -> None:
        rules = [
            {
                "ID": name,
                "Priority": number,
                "Filter": given,
                "Status": "Enabled",
                "DeleteMarkerReplication": {"Status": "Disabled"},
                "Destination": {"Bucket": "arn:aws:s3:::copies", "StorageClass": SITE},
            }
            for number, (name, given) in enumerate(filters.items())
        ]
        self.s3.put_bucket_replication(Bucket=self.name, ReplicationConfiguration={"Role": "r", "Rules": rules})
        time.sleep(1.1)  # replies tell whole seconds: what is written in that of the rules seems to be older

    def put(self, key: str, **more: Any) -> str:
        version: str = self.s3.put_object(Bucket=self.name, Key=key, Body=b"data", **more)["VersionId"]
        return version

    def record(self, key: str, version_id: str, status: Status) -> None:
        """What a worker would note down."""
        sites = (SiteState(SITE, "copies", status, 1.0),)
        made = ReplicationRecord("p", self.name, self.uid, key, version_id, 1, 1.0, sites=sites)
        with closing(open_tables(settings_of(self.place.service), self.place.service.data)) as tables:
            tables.put(made.entry, made.to_json())

    def status(self, key: str, version_id: str = "", **more: Any) -> str:
        """As GET and HEAD tell it; "" where they do not."""
        which = {"Bucket": self.name, "Key": key, **({"VersionId": version_id} if version_id else {}), **more}
        got, head = self.s3.get_object(**which), self.s3.head_object(**which)
        got["Body"].read()
        told = {reply["ResponseMetadata"]["HTTPHeaders"].get(HEADER, "") for reply in (got, head)}
        assert len(told) == 1
        return str(told.pop())

    def events(self) -> list[Event]:
        return [event for event in self.log.news() if event.bucket == self.name]


@pytest.fixture(scope="module")
def _site(place: Place) -> None:
    store_location_of(place.service, SITE)


@pytest.fixture
def log(place: Place) -> Iterator[MetadataLog]:
    with closing(MetadataLog(place.service)) as opened:
        yield opened


@pytest.fixture
def bucket(place: Place, _site: None, log: MetadataLog, fresh_name: Callable[[str], str]) -> Iterator[Bucket]:
    made = Bucket(place, fresh_name("statuses"), log)
    yield made
    made.s3.delete_bucket_replication(Bucket=made.name)


def metadata() -> dict[str, str]:
    """As a replica has it."""
    found = owner_metadata(Component.REPLICA, pool="p", bucket="b", bucket_uid="u", key="k", version_id="v")
    return {name.removeprefix("x-amz-meta-"): value for name, value in found.items()}


def test_what_matches_the_rules_is_pending_until_something_became_of_it(bucket: Bucket) -> None:
    before = bucket.put("copied/before")
    bucket.rules(prefix={"Prefix": "copied/"})
    version = bucket.put("copied/after")
    assert bucket.status("copied/after") == bucket.status("copied/after", version) == "PENDING"
    assert bucket.put("other/object") and bucket.status("other/object") == ""
    assert bucket.status("copied/before", before) == ""


@pytest.mark.parametrize("status", [Status.PENDING, Status.COMPLETED, Status.FAILED])
def test_each_version_has_the_status_of_its_record(bucket: Bucket, status: Status) -> None:
    """No rule matches the key, so that no worker touches the records."""
    bucket.rules(prefix={"Prefix": "elsewhere/"})
    old, new = bucket.put("k"), bucket.put("k")
    bucket.record("k", old, Status.FAILED)
    bucket.record("k", new, status)
    assert bucket.status("k") == bucket.status("k", new) == bucket.status("k", Range="bytes=1-2") == status
    assert bucket.status("k", old) == "FAILED"
    bucket.s3.delete_object(Bucket=bucket.name, Key="k")
    assert bucket.status("k", new) == status


def test_tags_decide_where_a_rule_asks_for_them(bucket: Bucket) -> None:
    bucket.rules(tagged={"Tag": {"Key": "copy", "Value": "yes"}})
    version = bucket.put("k", Tagging="copy=no")
    assert bucket.status("k") == bucket.status("k", version) == ""
    version = bucket.put("k", Tagging="copy=yes&other=1")
    assert bucket.status("k") == bucket.status("k", version) == "PENDING"


def test_a_replica_says_so_with_and_without_rules(bucket: Bucket) -> None:
    bucket.put("copied/replica", Metadata=metadata())
    assert bucket.status("copied/replica") == "REPLICA"
    bucket.rules(prefix={"Prefix": "copied/"})
    version = bucket.put("copied/replica", Metadata=metadata())
    assert bucket.status("copied/replica") == bucket.status("copied/replica", version) == "REPLICA"


def test_without_rules_nothing_is_told(bucket: Bucket) -> None:
    version = bucket.put("k")
    bucket.record("k", version, Status.FAILED)
    assert bucket.status("k") == ""


def test_events_of_replicas_say_so_however_they_were_put(bucket: Bucket) -> None:
    s3, name = bucket.s3, bucket.name
    bucket.put("plain")
    bucket.put("replica", Metadata=metadata())
    started = s3.create_multipart_upload(Bucket=name, Key="large", Metadata=metadata())["UploadId"]
    part = s3.upload_part(Bucket=name, Key="large", UploadId=started, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=name, Key="large", UploadId=started, MultipartUpload=parts)
    source = {"Bucket": name, "Key": "replica"}
    s3.copy_object(Bucket=name, Key="copy", CopySource=source)
    s3.copy_object(Bucket=name, Key="site", CopySource=source, MetadataDirective="REPLACE", Metadata=metadata())
    told = {event.key: event.is_replica for event in bucket.events() if event.operation is EventKind.PUT}
    assert told == {"plain": False, "replica": True, "large": True, "copy": False, "site": True}
