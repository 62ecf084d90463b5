"""Large versions on their way to a site that are broken off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event as Flag

import pytest
from replicated_world import PART_MB, OnePool, ReplicatedWorld

from tidegate.assembly import open_store
from tidegate.core.errors import Refused
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.replication.records import ReplicationRecord
from tidegate.core.replication.uploads import UPLOADS
from tidegate.movement.source_reader import Stopped
from tidegate.ports import Store, StoredPart, Topics
from tidegate.replication.site_writer import SiteWriter, SourceGone
from tidegate.replication.upload_records import UploadRecords

PART_BYTES = PART_MB << 20
DELETION = "given-up-uploads"


@pytest.fixture
def source(replicated: ReplicatedWorld) -> Iterator[Store]:
    with closing(open_store(replicated.service.s3_url, replicated.key.access_key, replicated.key.secret_key)) as store:
        yield store


@pytest.fixture
def site(replicated: ReplicatedWorld) -> Iterator[Store]:
    one = replicated.stores["one"]
    with closing(open_store(one.url, one.access_key, one.secret_key)) as store:
        yield store


@pytest.fixture
def topics(replicated: ReplicatedWorld) -> Iterator[Topics]:
    with replicated.topics() as opened:
        opened.create(DELETION, 1)
        yield opened


def writer_of(replicated: ReplicatedWorld, topics: Topics, source: Store, stop: Flag | None = None) -> SiteWriter:
    uploads = UploadRecords(replicated.tables, topics, deletion_topic=DELETION)
    return SiteWriter("one", OnePool(source), uploads, part_bytes=PART_BYTES, stop=stop or Flag())


def made(replicated: ReplicatedWorld, data: bytes) -> ReplicationRecord:
    """A version that no rule sends anywhere."""
    bucket = replicated.bucket(prefix="elsewhere/")
    version = replicated.put(bucket, "k", data)
    return ReplicationRecord("replicated", bucket, replicated.uid(bucket), "k", version, ts_ns=1, last_modified=1.0)


def broken_off(
    replicated: ReplicatedWorld, topics: Topics, source: Store, site: Store, record: ReplicationRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """After its first part."""
    stop, put_part = Flag(), site.put_part

    def put_one(bucket: str, key: str, upload_id: str, number: int, data: bytes) -> StoredPart:
        stop.set()
        return put_part(bucket, key, upload_id, number, data)

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(site, "put_part", put_one)
        writer_of(replicated, topics, source, stop).put(site, record.bucket, record)


def test_nothing_is_deleted_where_there_is_no_versioning_and_nothing_arrives(
    replicated: ReplicatedWorld, topics: Topics, source: Store, site: Store
) -> None:
    record = made(replicated, b"data")
    writer, at = writer_of(replicated, topics, source), replicated.at("one")
    at.create_bucket(Bucket="unversioned")
    with pytest.raises(Refused, match="Enable versioning there"):
        writer.put(site, "unversioned", record)
    with pytest.raises(Refused, match="Destination bucket must have versioning enabled"):
        writer.put(site, "unversioned", replace(record, is_marker=True))
    assert at.get_object(Bucket="unversioned", Key="k")["Body"].read() == b"data"
    at.put_bucket_versioning(Bucket="unversioned", VersioningConfiguration={"Status": "Enabled"})
    assert all(writer.put(site, "unversioned", replace(record, is_marker=marker)) for marker in (False, True))


def test_an_upload_that_was_broken_off_is_gone_on_with(
    replicated: ReplicatedWorld, topics: Topics, source: Store, site: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * PART_BYTES - 5)
    record = made(replicated, data)
    broken_off(replicated, topics, source, site, record, monkeypatch)
    assert len(replicated.stores["one"].uploads(record.bucket)) == 1
    sent: list[int] = []
    put_part = site.put_part

    def counted(bucket: str, key: str, upload_id: str, number: int, data: bytes) -> StoredPart:
        sent.append(number)
        return put_part(bucket, key, upload_id, number, data)

    monkeypatch.setattr(site, "put_part", counted)
    stored = writer_of(replicated, topics, source).put(site, record.bucket, record)
    assert sent == [2, 3]
    found = replicated.at("one").get_object(Bucket=record.bucket, Key="k", VersionId=stored.version_id)
    assert (found["Body"].read(), found["ETag"].strip('"')) == (data, stored.etag)
    assert replicated.stores["one"].uploads(record.bucket) == set()
    assert replicated.tables.scan(UPLOADS) == []


def test_an_upload_of_a_version_that_is_given_up_goes_to_deletion(
    replicated: ReplicatedWorld, topics: Topics, source: Store, site: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made(replicated, os.urandom(2 * PART_BYTES))
    broken_off(replicated, topics, source, site, record, monkeypatch)
    (upload,) = replicated.stores["one"].uploads(record.bucket)
    writer_of(replicated, topics, source).give_up(record, "the site is away")
    found = [PendingDelete.from_bytes(message.value) for message in topics.read(DELETION, 0, 0, 100)]
    assert [(each.upload_id, each.data_bucket, each.missing) for each in found][-1] == (upload, record.bucket, ())
    assert replicated.tables.scan(UPLOADS) == []


def test_a_version_that_is_not_at_the_source_any_more_is_gone(
    replicated: ReplicatedWorld, topics: Topics, source: Store, site: Store
) -> None:
    record = made(replicated, b"data")
    replicated.s3.delete_object(Bucket=record.bucket, Key="k", VersionId=record.version_id)
    with pytest.raises(SourceGone):
        writer_of(replicated, topics, source).put(site, record.bucket, record)
    with pytest.raises(SourceGone):
        writer_of(replicated, topics, source).put_tags(site, record.bucket, record, "any")
    assert replicated.history("one", record.bucket, "k") == []
