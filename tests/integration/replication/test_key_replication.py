"""Versions of one key at a real site, while the records do not tell yet what has arrived."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event as Flag
from typing import Any, cast

import pytest
from replicated_world import OnePool, ReplicatedWorld

from tidegate.assembly import open_store
from tidegate.core.errors import Refused
from tidegate.core.pending_deletes import Component, owner_metadata
from tidegate.core.replication.messages import ReplicationTask, StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.transitions import updated
from tidegate.ports import Store, StoredVersion
from tidegate.replication.key_replication import KeyReplication, Outcome, Result, Site, Wanted
from tidegate.replication.site_memory import SiteMemory
from tidegate.replication.site_writer import SiteWriter
from tidegate.replication.upload_records import UploadRecords

KEY = "elsewhere/k"


class Lagging:
    """A site and versions of a key that no rule sends there: nobody but the test replicates them, and nobody carries
    what has arrived into their records."""

    def __init__(self, world: ReplicatedWorld, source: Store, site: Store) -> None:
        self.world = world
        self.bucket = world.bucket(sites=["one"], prefix="other/")
        self._uid = world.uid(self.bucket)
        self._began_at = time.time() - 60
        with world.topics() as topics:
            uploads = UploadRecords(world.tables, topics, deletion_topic="unused")
        writer = SiteWriter("one", OnePool(source), uploads, part_bytes=1 << 20, stop=Flag())
        self.site = Site("one", site, writer, SiteMemory(self._began_at))
        self._number = 0

    def write(self, text: str) -> ReplicationRecord:
        """A version, or a marker where there is no text; its record says that it is on its way."""
        world = self.world
        version = world.put(self.bucket, KEY, text.encode()) if text else world.delete(self.bucket, KEY)
        self._number += 1
        state = SiteState("one", self.bucket, Status.PENDING, self._began_at)  # not fresh: it is looked for
        record = ReplicationRecord(
            "replicated", self.bucket, self._uid, KEY, version, self._number, 1.0, is_marker=not text, sites=(state,)
        )
        world.tables.put(record.entry, record.to_json())
        return record

    def replicate(self, *records: ReplicationRecord) -> list[Outcome]:
        """One after the other, as they came."""
        return [outcome for record in records for outcome in self.replicate_tasks([self.task(record)])]

    def replicate_again(self, *records: ReplicationRecord) -> list[Outcome]:
        """All together: the log has told of them once more, ten units later."""
        tasks = [self.task(replace(each, ts_ns=each.ts_ns + 10), earlier_ns=each.ts_ns) for each in records]
        return self.replicate_tasks(tasks)

    def task(self, record: ReplicationRecord, *, earlier_ns: int = 0) -> ReplicationTask:
        return ReplicationTask(
            bucket=record.bucket,
            bucket_uid=record.bucket_uid,
            key=record.key,
            version_id=record.version_id,
            ts_ns=record.ts_ns,
            sites=("one",),
            earlier_ns=earlier_ns,
        )

    def replicate_tasks(self, tasks: list[ReplicationTask]) -> list[Outcome]:
        replication = KeyReplication(self.world.tables, self.site, self._uid, KEY, lambda: True)
        outcomes = replication.outcomes([Wanted(task, is_repeated=True) for task in tasks])
        assert {outcome.result for outcome in outcomes} == {Result.DONE}, outcomes
        return outcomes

    def outcome(self, site: Site, record: ReplicationRecord, *, is_last_try: bool = False) -> Outcome:
        replication = KeyReplication(self.world.tables, site, self._uid, KEY, lambda: True)
        (outcome,) = replication.outcomes([Wanted(self.task(record), is_repeated=True, is_last_try=is_last_try)])
        return outcome

    @property
    def copies(self) -> int:
        shown = self.world.at("one").list_object_versions(Bucket=self.bucket, Prefix=KEY)
        return len(shown.get("Versions", []))

    @property
    def history(self) -> list[str]:
        return self.world.history("one", self.bucket, KEY)


@pytest.fixture
def lagging(replicated: ReplicatedWorld) -> Iterator[Lagging]:
    one = replicated.stores["one"]
    with (
        closing(open_store(replicated.service.s3_url, replicated.key.access_key, replicated.key.secret_key)) as source,
        closing(open_store(one.url, one.access_key, one.secret_key)) as site,
    ):
        yield Lagging(replicated, source, site)


def test_a_marker_that_has_arrived_is_not_taken_for_a_later_one(lagging: Lagging) -> None:
    for text in ("a", "", "", "b", ""):
        lagging.replicate(lagging.write(text))
    assert lagging.history == ["a", "deleted", "deleted", "b", "deleted"]


def test_a_version_of_which_the_log_learnt_too_late_goes_below_those_that_had_arrived(lagging: Lagging) -> None:
    late, first, second = lagging.write("late"), lagging.write("first"), lagging.write("second")
    lagging.world.tables.delete(late.entry)  # nobody knows of it
    lagging.replicate(first, second)
    assert lagging.history == ["first", "second"]
    # The log tells of it, and then of those above it once more.
    late = replace(late, ts_ns=11)
    lagging.world.tables.put(late.entry, late.to_json())
    outcomes = [*lagging.replicate(late), *lagging.replicate_again(first, second)]
    released = [pending.data_version_id for outcome in outcomes for pending in outcome.released]
    assert len(released) == 2
    for copy in released:
        lagging.world.at("one").delete_object(Bucket=lagging.bucket, Key=KEY, VersionId=copy)
    assert lagging.history == ["late", "first", "second"]


class Refusing:
    """The site, which does not take what holds some text."""

    def __init__(self, site: Store, text: bytes) -> None:
        self._site = site
        self._text = text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)

    def put_version(self, bucket: str, key: str, data: bytes, **options: Any) -> StoredVersion:
        if self._text in data:
            raise Refused("it is not taken")
        return self._site.put_version(bucket, key, data, **options)


def test_newer_versions_stay_on_top_where_putting_them_again_breaks_off(lagging: Lagging) -> None:
    old, first, second = lagging.write("old"), lagging.write("first"), lagging.write("second")
    lagging.world.tables.delete(old.entry)
    for record, outcome in zip((first, second), lagging.replicate(first, second), strict=True):
        (told,) = outcome.messages
        assert isinstance(told, StatusUpdate)
        lagging.world.tables.put(record.entry, updated(record, told).to_json())
    lagging.world.tables.put(old.entry, old.to_json())
    site = replace(lagging.site, store=cast(Store, Refusing(lagging.site.store, b"second")))
    tries = [lagging.outcome(site, old, is_last_try=is_last) for is_last in (False, False, True)]
    assert [each.result for each in tries] == [Result.RETRY, Result.RETRY, Result.DONE]
    for outcome in tries:
        for pending in outcome.released:
            lagging.world.at("one").delete_object(Bucket=lagging.bucket, Key=KEY, VersionId=pending.data_version_id)
    assert lagging.history == ["first", "second"]
    assert lagging.copies == 2


def test_what_a_backfill_found_and_is_a_replica_is_told_and_not_put(lagging: Lagging) -> None:
    own, copied = lagging.write("own"), lagging.write("copied")
    for record, key in ((own, KEY), (copied, "a key that it was copied from")):
        metadata = owner_metadata(Component.REPLICA, pool="p", bucket="b", bucket_uid="u", key=key, version_id="v")
        given = {name.removeprefix("x-amz-meta-"): value for name, value in metadata.items()}
        version = lagging.world.put(lagging.bucket, KEY, b"replica", Metadata=given)
        lagging.world.tables.delete(record.entry)
        found = replace(record, version_id=version, is_found=True)
        lagging.world.tables.put(found.entry, found.to_json())
        outcome = lagging.outcome(lagging.site, found)
        statuses = [message.status for message in outcome.messages if isinstance(message, StatusUpdate)]
        assert statuses == [Status.REPLICA if key == KEY else Status.COMPLETED]
        lagging.world.tables.delete(found.entry)
    assert lagging.history == ["replica"]


def test_what_lies_in_order_is_not_put_again(lagging: Lagging) -> None:
    first, second = lagging.write("first"), lagging.write("second")
    lagging.replicate(first, second)
    assert [outcome.released for outcome in lagging.replicate_again(first, second)] == [(), ()]
    assert lagging.history == ["first", "second"]


def test_a_former_copy_of_a_marker_is_nobodys_when_markers_are_put_in_order(lagging: Lagging) -> None:
    late, first, second = lagging.write(""), lagging.write(""), lagging.write("")
    for record in (late, second):
        lagging.world.tables.delete(record.entry)
    lagging.replicate(first)
    for record, later in ((late, 10), (second, 11)):
        lagging.world.tables.put(record.entry, replace(record, ts_ns=record.ts_ns + later).to_json())
    # The newest one is asked for before those that the log tells of late, or again.
    again = replace(first, ts_ns=2)
    outcomes = lagging.replicate_tasks(
        [
            lagging.task(replace(second, ts_ns=14)),
            lagging.task(replace(late, ts_ns=11)),
            lagging.task(replace(again, ts_ns=12), earlier_ns=2),
        ]
    )
    copies = {
        message.version_id: message.replica_version_id
        for outcome in outcomes
        for message in outcome.messages
        if isinstance(message, StatusUpdate)
    }
    for outcome in outcomes:
        for pending in outcome.released:
            lagging.world.at("one").delete_object(Bucket=lagging.bucket, Key=KEY, VersionId=pending.data_version_id)
    assert lagging.history == ["deleted"] * 3
    shown = lagging.world.at("one").list_object_versions(Bucket=lagging.bucket, Prefix=KEY)["DeleteMarkers"]
    assert {entry["VersionId"] for entry in shown} == set(copies.values())
    assert len(copies) == 3
