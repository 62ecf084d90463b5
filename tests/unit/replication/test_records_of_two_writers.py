"""Records that somebody else changes between being read and being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

import pytest

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.replication.counts import COUNTS
from tidegate.core.replication.messages import REPLICATION_TOPIC, STATUS_TOPIC, ReplicationTask, StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import NOTHING_EXPECTED
from tidegate.replication.enqueueing import enqueue
from tidegate.replication.status_processor import StatusProcessor
from tidegate.replication.topics import create_replication_topics, send
from tidegate.topic_pages import appended_since

RECORD = ReplicationRecord(
    "p", "photos", "uid", "k", "v1", 1, 1.0, size=5, sites=(SiteState("one", "copies", Status.PENDING, 1.0),)
)
ARRIVED = RECORD.with_state(SiteState("one", "copies", Status.COMPLETED, 2.0, "c"))


class SharedTables(SqliteTables):
    """`before_change` is what somebody else does right before the next change."""

    before_change: Callable[[], None] | None = None

    def change(
        self, entries: Mapping[str, str | None], *, expected: Mapping[str, str | None] = NOTHING_EXPECTED
    ) -> bool:
        before, self.before_change = self.before_change, None
        if before is not None:
            before()
        return super().change(entries, expected=expected)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SharedTables]:
    with closing(SharedTables(tmp_path / "tables.db")) as opened:
        yield opened


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[FileTopics]:
    with closing(FileTopics(tmp_path / "topics", lease_seconds=30)) as opened:
        create_replication_topics(opened)
        yield opened


def test_a_record_that_somebody_else_has_made_meanwhile_is_not_written_over(
    tables: SharedTables, topics: FileTopics
) -> None:
    tables.before_change = lambda: tables.put(ARRIVED.entry, ARRIVED.to_json())
    enqueue(tables, topics, [RECORD, replace(RECORD, version_id="v2")])
    assert tables.get(RECORD.entry) == ARRIVED.to_json()
    assert tables.get(replace(RECORD, version_id="v2").entry) is not None
    tasks = [ReplicationTask.from_bytes(each.value) for each in appended_since(topics, REPLICATION_TOPIC, [0] * 4)]
    assert [task.version_id for task in tasks] == ["v1", "v2"]


def test_a_status_that_somebody_else_has_carried_in_meanwhile_is_not_counted_again(
    tables: SharedTables, topics: FileTopics
) -> None:
    tables.change({RECORD.entry: RECORD.to_json(), **RECORD.open_entries()})
    told = StatusUpdate(
        bucket="photos", bucket_uid="uid", key="k", version_id="v1", site="one", status=Status.COMPLETED, at=2.0,
        replica_version_id="c",
    )  # fmt: skip
    send(topics, STATUS_TOPIC, [told])
    tables.before_change = lambda: tables.put(ARRIVED.entry, ARRIVED.to_json())
    with closing(StatusProcessor(tables, topics, lease_seconds=30, stop=Flag(), now=lambda: 9.0)) as processor:
        while processor.run_once(0.2):
            pass
    assert tables.get(RECORD.entry) == ARRIVED.to_json()
    assert tables.scan(COUNTS) == []
