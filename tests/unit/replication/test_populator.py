"""The populator and the status processor on real tables and topics: what events and statuses make of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any, cast

import pytest
from failed_versions import make_bucket

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Refused, TidegateError, Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.pending_deletes import Component
from tidegate.core.replication.counts import COUNTS, INTERVALS, ArrivedCount, IntervalCount
from tidegate.core.replication.failed_keys import FAILED
from tidegate.core.replication.messages import (
    POPULATOR_GROUP,
    REPLICATION_AUDIT_TOPIC,
    REPLICATION_TOPIC,
    STATUS_TOPIC,
    Content,
    ReplicationTask,
    StatusUpdate,
    record_key,
)
from tidegate.core.replication.records import OPEN, RECORDS, ReplicationRecord, Status, entry_of
from tidegate.core.replication.replicas import COMPONENT_HEADER
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.ports import Record, Store, StoredHead, Tables, Topics
from tidegate.replication import populator
from tidegate.replication.failed_consumer import FailedConsumer
from tidegate.replication.populator import Populator
from tidegate.replication.status_processor import StatusProcessor
from tidegate.replication.topics import create_replication_topics, send, trim_finished
from tidegate.topic_pages import appended_since

LOG = "log"
SECOND = 1_000_000_000
NOW = 2_000_000.0


class Place:
    """A bucket `photos` whose objects under `in/` go to two sites, markers to the first alone."""

    def __init__(self, tables: Tables, topics: Topics) -> None:
        self.tables, self.topics = tables, topics
        make_bucket(tables, "photos", "uid")
        rule = ReplicationRule("r", 1, True, Filter(prefix="in/"), "copies", ("one", "two"), since=100.0)
        first = ReplicationRule(
            "m", 2, True, Filter(prefix="in/"), "copies", ("one",), delete_markers=True, since=100.0
        )
        tables.put(f"{REPLICATION}uid", ReplicationRules((rule, first)).to_json())
        topics.create(LOG, 2)
        create_replication_topics(topics)
        self.clock = NOW
        self.shown: StoredHead | TidegateError | None = None
        self.looks: list[tuple[str, str]] = []
        stop, now = Flag(), lambda: self.clock
        self.populator = Populator(tables, topics, self, log_topic=LOG, stop=stop, now=now)
        self.processor = StatusProcessor(tables, topics, lease_seconds=30, stop=stop, now=now)
        self.failed = FailedConsumer(tables, topics, hours=1, lease_seconds=30, stop=stop)

    def of_pool(self, pool: str) -> Store:
        """The store behind the only pool."""
        return cast(Store, self)

    def head(self, bucket: str, key: str, version_id: str = "") -> StoredHead | None:
        self.looks.append((key, version_id))
        if isinstance(self.shown, TidegateError):
            raise self.shown
        return self.shown

    def log(self, *events: Event) -> None:
        records = [Record(record_key(event.bucket_uid, event.key), event.to_bytes()) for event in events]
        self.topics.append(LOG, records)
        while self.populator.run_once(0.2):
            pass

    def change_rules(self, *rules: ReplicationRule, now: float) -> None:
        text = self.tables.get(f"{REPLICATION}uid")
        before = ReplicationRules.from_json(text) if text is not None else None
        self.tables.put(f"{REPLICATION}uid", ReplicationRules(rules).after(before, now=now).to_json())

    def tell(self, *updates: StatusUpdate) -> None:
        send(self.topics, STATUS_TOPIC, updates)
        self.settle()

    def settle(self) -> None:
        while self.processor.run_once(0.2):
            pass
        while self.failed.run_once(0.2):
            pass

    def tasks(self) -> list[ReplicationTask]:
        found = appended_since(self.topics, REPLICATION_TOPIC, [0] * 4)
        return [ReplicationTask.from_bytes(message.value) for message in found]

    def record(self, version: str, key: str = "in/k") -> ReplicationRecord | None:
        text = self.tables.get(entry_of("uid", key, version))
        return ReplicationRecord.from_json(text) if text is not None else None

    def status(self, version: str, site: str = "one") -> Status | None:
        record = self.record(version)
        state = record.at(site) if record is not None else None
        return state.status if state is not None else None

    def entries(self, prefix: str) -> dict[str, str]:
        return dict(self.tables.scan(prefix))

    def close(self) -> None:
        self.populator.close()
        self.processor.close()
        self.failed.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    tables = SqliteTables(tmp_path / "tables.db")
    topics = FileTopics(tmp_path / "topics", lease_seconds=30)
    made = Place(tables, topics)
    yield made
    made.close()
    topics.close()
    tables.close()


def event(number: int, kind: EventKind = EventKind.PUT, **fields: Any) -> Event:
    values = {"key": "in/k", "version_id": f"v{number}", "size": 5, "bucket": "photos", "bucket_uid": "uid"}
    return Event(ts_ns=(1000 + number) * SECOND, operation=kind, pool="p", **(values | fields))


def update(number: int, status: Status, site: str = "one", **fields: Any) -> StatusUpdate:
    where = {"bucket": "photos", "bucket_uid": "uid", "key": "in/k", "version_id": f"v{number}"}
    return StatusUpdate(**where, site=site, status=status, at=NOW, **fields)


def test_a_version_gets_a_record_an_open_entry_for_each_site_and_a_task(place: Place) -> None:
    place.log(event(1), event(2, key="out/k"), event(3, bucket_uid="another"), event(4, EventKind.MOVED))
    record = place.record("v1")
    assert record is not None
    assert (record.status, [state.site for state in record.sites], record.size) == (Status.PENDING, ["one", "two"], 5)
    assert len(place.entries(OPEN)) == 2
    assert [(task.version_id, task.sites) for task in place.tasks()] == [("v1", ("one", "two"))]
    assert len(place.entries(RECORDS)) == 1


def test_a_marker_goes_where_rules_send_markers(place: Place) -> None:
    place.log(event(1, EventKind.DELETE_MARKER))
    record = place.record("v1")
    assert record is not None
    assert (record.is_marker, [state.site for state in record.sites]) == (True, ["one"])


def test_what_was_written_before_the_rules_stays(place: Place) -> None:
    place.log(event(-901), event(-900))
    assert [task.version_id for task in place.tasks()] == ["v-900"]


def test_what_the_log_tells_of_after_the_rules_changed_goes_where_they_sent_it_when_it_was_written(
    place: Place,
) -> None:
    place.change_rules(ReplicationRule("n", 1, True, Filter(prefix="in/"), "new", ("two",)), now=1002.0)
    place.log(event(1), event(2))
    assert [(task.version_id, task.sites) for task in place.tasks()] == [("v1", ("one", "two")), ("v2", ("two",))]
    record = place.record("v1")
    assert record is not None and {state.bucket for state in record.sites} == {"copies"}


TAGGED = (("copy", "yes"),)


def tag_rules(place: Place) -> None:
    """From the first second on, what has a tag goes to one site."""
    rule = ReplicationRule("t", 1, True, Filter(prefix="in/", tags=TAGGED), "copies", ("one",), since=100.0)
    place.tables.put(f"{REPLICATION}uid", ReplicationRules((rule,)).to_json())


def shown(**more: str) -> StoredHead:
    """A version of 1001 seconds after 1970."""
    given = {"x-amz-version-id": "v1", "last-modified": "Thu, 01 Jan 1970 00:16:41 GMT", "content-length": "5"}
    return StoredHead({**given, "etag": '"e"', **more})


@pytest.mark.parametrize("version_id", ["", "v1"])
def test_a_version_that_rules_mean_by_tags_that_it_got_later_is_queued(place: Place, version_id: str) -> None:
    tag_rules(place)
    place.shown = shown()
    place.log(event(1), event(2, EventKind.TAGGING, version_id=version_id, tags=TAGGED))
    place.log(event(3, EventKind.TAGGING, version_id=version_id, tags=TAGGED))
    record = place.record("v1")
    assert record is not None
    assert (record.status, record.size, record.etag, record.last_modified) == (Status.PENDING, 5, "e", 1001.0)
    assert [task.content for task in place.tasks()] == [Content.VERSION, Content.TAGS]


def test_nobody_looks_at_versions_whose_tags_mean_nothing_to_rules(place: Place) -> None:
    place.log(event(1), event(2, EventKind.TAGGING, version_id="v1", tags=TAGGED))
    tag_rules(place)
    place.log(event(3, EventKind.TAGGING, version_id="v1", tags=()))
    place.log(event(3, EventKind.TAGGING, version_id="v1", key="out/k", tags=TAGGED))
    place.log(event(4, EventKind.TAGGING, version_id="v1", tags=TAGGED))
    assert place.looks == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        Refused("the pool is disabled"),
        shown(**{"last-modified": "Thu, 01 Jan 1970 00:01:30 GMT"}),
        shown(**{"last-modified": "Thu, 01 Jan 1970 01:00:00 GMT"}),
        shown(**{"x-amz-version-id": "null"}),
        shown(**{COMPONENT_HEADER: Component.REPLICA}),
    ],
    ids=["gone", "refused", "older than the rule", "later than the event", "no version", "a replica"],
)
def test_tagged_versions_that_are_not_to_be_replicated_stay(
    place: Place, found: StoredHead | TidegateError | None
) -> None:
    tag_rules(place)
    place.shown = found
    place.log(event(2, EventKind.TAGGING, version_id="", tags=TAGGED))
    assert place.looks and place.tasks() == [] and place.entries(RECORDS) == {}


def test_a_tagged_version_whose_pool_does_not_answer_is_looked_at_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(populator, "_AWAY_SECONDS", 0.5)
    tag_rules(place)
    place.shown = Unavailable("the pool is away")
    events = [event(number, EventKind.TAGGING, version_id="", key=f"in/{number}", tags=TAGGED) for number in (2, 3)]
    place.log(*events, event(4, key="in/other", tags=TAGGED))
    assert [task.key for task in place.tasks()] == ["in/other"], "nobody else waits"
    assert place.looks == [("in/2", "")], "it was asked twice in a batch"
    place.shown = shown()
    while len(place.tasks()) < 3:
        place.populator.run_once(0.2)
    assert {task.key for task in place.tasks()} == {"in/2", "in/3", "in/other"}
    assert place.topics.lag(LOG, POPULATOR_GROUP) == 0


def test_a_version_that_turns_out_to_be_a_replica_is_on_its_way_nowhere(place: Place) -> None:
    place.log(event(1))
    place.tell(update(1, Status.REPLICA))
    record = place.record("v1")
    assert record is not None
    assert (record.status, place.entries(OPEN), place.entries(INTERVALS)) == (Status.REPLICA, {}, {})


def test_versions_without_an_id_stay(place: Place) -> None:
    place.log(event(1, version_id=""), event(2, version_id="null"))
    assert place.tasks() == []


def test_a_replica_has_a_record_and_no_task(place: Place) -> None:
    place.log(event(1, is_replica=True))
    record = place.record("v1")
    assert record is not None
    assert (record.status, place.tasks(), place.entries(OPEN)) == (Status.REPLICA, [], {})


def test_events_that_come_twice_leave_records_alone(place: Place) -> None:
    place.log(event(1))
    place.tell(update(1, Status.COMPLETED, replica_version_id="c"))
    place.log(event(1))
    assert place.status("v1") is Status.COMPLETED
    assert len(place.tasks()) == 2


def test_a_version_that_is_told_of_at_a_later_time_gets_that_time_and_a_task_that_says_so(place: Place) -> None:
    """As the log does when it learns of an earlier version too late: that one first, then what stands above it."""
    place.log(event(1))
    place.tell(update(1, Status.COMPLETED, replica_version_id="c"))
    first = place.record("v1")
    assert first is not None
    place.log(event(5, version_id="late"), event(6, version_id="v1"))
    place.settle()
    record = place.record("v1")
    assert record is not None
    assert (record.ts_ns, record.status, record.sites) == (1006 * SECOND, first.status, first.sites)
    assert [(task.version_id, task.ts_ns, task.earlier_ns) for task in place.tasks()] == [
        ("v1", 1001 * SECOND, 0),
        ("late", 1005 * SECOND, 0),
        ("v1", 1006 * SECOND, 1001 * SECOND),
    ]


@pytest.mark.parametrize("together", [True, False])
def test_a_version_that_is_deleted_and_brought_back_has_a_record_again(place: Place, together: bool) -> None:
    place.log(event(1))
    place.tell(update(1, Status.COMPLETED, replica_version_id="c"))
    deleted, back = event(2, EventKind.DELETE, version_id="v1"), event(3, version_id="v1")
    for events in [(deleted, back)] if together else [(deleted,), (back,)]:
        place.log(*events)
    place.settle()
    record = place.record("v1")
    assert record is not None and (record.ts_ns, record.status) == (1003 * SECOND, Status.PENDING)
    assert len(place.entries(OPEN)) == 2 and place.entries(COUNTS) == {}
    place.log(deleted)  # once more, as after a batch that was broken off
    place.settle()
    assert place.record("v1") == record


def test_tags_that_change_are_brought_to_all_sites_and_a_version_that_failed_stays_failed(place: Place) -> None:
    place.log(event(1))
    place.tell(update(1, Status.COMPLETED, replica_version_id="c"), update(1, Status.FAILED, "two"))
    place.log(event(2, EventKind.TAGGING, version_id=""))
    place.settle()
    assert (place.status("v1"), place.status("v1", "two")) == (Status.PENDING, Status.FAILED)
    task = place.tasks()[-1]
    assert (task.version_id, task.content, task.sites) == ("v1", Content.TAGS, ("one", "two"))


def test_a_version_that_is_deleted_takes_its_record_along(place: Place) -> None:
    place.log(event(1), event(2))
    place.tell(update(1, Status.COMPLETED), update(2, Status.COMPLETED))
    place.log(event(3, EventKind.DELETE, version_id="v1"))
    place.settle()
    assert (place.record("v1"), place.status("v2")) == (None, Status.COMPLETED)
    (count,) = place.entries(COUNTS).values()
    assert ArrivedCount.from_json(count) == ArrivedCount(1, 5)
    place.tell(update(1, Status.COMPLETED))  # which was on its way
    assert place.record("v1") is None


def test_a_version_that_is_deleted_right_away_is_never_recorded(place: Place) -> None:
    place.log(event(1), event(2, EventKind.DELETE, version_id="v1"))
    place.settle()
    assert (place.entries(RECORDS), place.entries(OPEN)) == ({}, {})


def test_a_deleted_bucket_takes_all_along_also_without_rules(place: Place) -> None:
    place.log(event(1), event(2))
    place.tables.delete(f"{REPLICATION}uid")
    place.log(event(3, EventKind.BUCKET_DELETED, key="", version_id=""))
    place.settle()
    assert (place.entries(RECORDS), place.entries(OPEN)) == ({}, {})


def test_a_status_changes_record_entry_and_counts_once(place: Place) -> None:
    place.log(event(1))
    for _ in range(3):
        place.tell(update(1, Status.COMPLETED, replica_version_id="c", replica_etag="e"))
    assert [entry.split("/")[0] for entry in place.entries(OPEN)] == [f"{OPEN}two"]
    (count,) = place.entries(COUNTS).values()
    assert ArrivedCount.from_json(count) == ArrivedCount(1, 5)
    (interval,) = place.entries(INTERVALS).values()
    assert IntervalCount.from_json(interval) == IntervalCount(1, 5)


def test_intervals_are_forgotten_after_their_hours(place: Place) -> None:
    place.log(event(1), event(2))
    place.tell(update(1, Status.COMPLETED))
    place.clock += 25 * 3600
    place.tell(update(2, Status.COMPLETED))
    (interval,) = place.entries(INTERVALS).values()
    assert IntervalCount.from_json(interval) == IntervalCount(1, 5)


def test_a_failure_is_listed_and_audited_and_a_retry_takes_it_out_of_both_counts(place: Place) -> None:
    place.log(event(1))
    place.tell(update(1, Status.FAILED, reason="away"))
    assert list(place.entries(FAILED)) == [f"{FAILED}photos:in/k:v1:one"]
    assert place.entries(COUNTS) == {}
    place.tell(update(1, Status.PENDING, is_retry=True))
    audited = [
        StatusUpdate.from_bytes(each.value) for each in appended_since(place.topics, REPLICATION_AUDIT_TOPIC, [0] * 4)
    ]
    assert [(each.status, each.reason, each.is_retry) for each in audited] == [
        (Status.FAILED, "away", False),
        (Status.PENDING, "", True),
    ]


def test_a_failure_that_was_retried_before_it_was_listed_is_not_listed(place: Place) -> None:
    place.log(event(1))
    send(place.topics, STATUS_TOPIC, [update(1, Status.FAILED), update(1, Status.PENDING, is_retry=True)])
    place.settle()
    assert place.entries(FAILED) == {}


def test_finished_messages_go_when_all_sites_are_through(place: Place) -> None:
    place.log(event(1))
    place.tell(update(1, Status.COMPLETED))
    assert trim_finished(place.topics, ["one"]) == 1  # the status; nobody read the task
    assert len(place.tasks()) == 1
