"""What a replicator remembers holds until a record tells of something later."""

from __future__ import annotations

from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import StoredVersion
from tidegate.replication.site_memory import SiteMemory

RECORD = ReplicationRecord("p", "photos", "uid", "k", "v1", 1, 1.0)
COPY = StoredVersion("c1", "e")


def at(since: float, copy_id: str = "", status: Status = Status.COMPLETED) -> SiteState:
    return SiteState("one", "copies", status, since, copy_id)


def test_a_record_that_follows_a_moment_later_does_not_count() -> None:
    memory = SiteMemory(0.0, now=lambda: 50.0)
    memory.arrived(RECORD, COPY)
    assert memory.copy_of(RECORD, at(40.0, status=Status.PENDING)) == COPY
    assert memory.copy_of(RECORD, at(40.0, "c0")) == COPY
    assert memory.copy_of(RECORD, at(51.0, "c1")) == COPY


def test_a_later_record_of_another_copy_or_of_none_counts() -> None:
    memory = SiteMemory(0.0, now=lambda: 50.0)
    memory.arrived(RECORD, COPY)
    assert memory.copy_of(RECORD, at(51.0, "c2")) is None
    assert memory.copy_of(RECORD, at(51.0, status=Status.PENDING)) is None


def test_a_version_that_was_begun_is_not_fresh_and_has_no_copy() -> None:
    memory = SiteMemory(10.0, now=lambda: 50.0)
    assert memory.is_fresh(RECORD, 11.0) and not memory.is_fresh(RECORD, 9.0)
    memory.began(RECORD)
    assert memory.copy_of(RECORD, at(20.0)) is None and not memory.is_fresh(RECORD, 11.0)
